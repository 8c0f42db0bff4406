import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { listen, stop } from '../../examples/listen.ts'
import { type AuthorizationTokensOptions, oidc, redisStore } from '../../src/authorization/index.ts'
import { createKeys } from '../../src/authorization/keys.ts'
import { Browser } from '../support/authorization/browser.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { startOpenIdProvider, type TestProvider } from '../support/upstream/openid-provider.ts'
import { SignedIn, type SignInClient, V1, V2_LEGACY, V2_MODERN } from './sign-in-clients.ts'

const PROGRAM = fileURLToPath(new URL('refresh-program.js', import.meta.url))
const REFRESHES = 100

/** A proxy in front of two nodes, which take turns. It cuts one response to a refresh in ten. */
class Front {
  readonly nodes: TestFacade[] = []
  /** The refreshes that the nodes have answered, by status. */
  readonly refreshes: number[] = []
  cuts = 0
  #requests = 0
  #known = new Set<string>()
  #expired = new Set<string>()
  readonly server = createServer((incoming, outgoing) => {
    const node = this.nodes[this.#requests++ % this.nodes.length]
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const body = Buffer.concat(chunks)
      const isRefresh = incoming.url === '/token' && body.includes('grant_type=refresh_token')
      const headers = { ...incoming.headers }
      const { authorization } = headers
      if (authorization !== undefined) {
        this.#known.add(authorization)
        if (this.#expired.has(authorization)) headers.authorization = 'Bearer expired'
      }
      const target = new URL(String(incoming.url), node?.origin)
      request(target, { method: String(incoming.method), headers }, (response) => {
        const isCut = isRefresh && this.refreshes.push(response.statusCode ?? 0) % 10 === 0
        if (isCut) {
          this.cuts++
          response.resume().on('end', () => incoming.socket.destroy())
          return
        }
        outgoing.writeHead(response.statusCode ?? 500, response.headers)
        response.pipe(outgoing)
      })
        .on('error', () => incoming.socket.destroy())
        .end(body)
    })
  })

  /** Expires all access tokens that clients have used. */
  expireTokens(): void {
    this.#expired = new Set(this.#known)
  }
}

/** A process of a client. */
class ClientProcess {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(kind: SignInClient, url: string, file: string) {
    this.#child = spawn(process.execPath, [PROGRAM, kind.name, url, file], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#lines = createInterface({ input: this.#child.stdout as NonNullable<ChildProcess['stdout']> })[
      Symbol.asyncIterator
    ]()
  }

  /** Calls a tool. Resolves with the number of attempts, or with 0 if the sign-in was lost. */
  async call(): Promise<number> {
    this.#child.stdin?.write('call\n')
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the client has ended')
    return Number(value)
  }

  stop(): void {
    this.#child.kill()
  }
}

describe('two processes of a client that share their tokens, with lost responses and two nodes', function () {
  this.timeout(300_000)
  let redis: RedisServer
  let front: Front
  let provider: TestProvider
  let origin: string
  let dir: string
  const connections: Redis[] = []

  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
    dir = await mkdtemp(join(tmpdir(), 'mcp-gatekit-refresh-'))
  })
  after(async () => {
    await redis?.stop()
    if (dir !== undefined) await rm(dir, { recursive: true })
  })
  beforeEach(async () => {
    front = new Front()
    origin = `http://127.0.0.1:${await listen(front.server, 0)}`
    provider = await startOpenIdProvider('ada', [`${origin}/signin/callback`])
  })
  afterEach(async () => {
    await stop(front.server)
    for (const node of front.nodes) await node.close()
    for (const connection of connections.splice(0)) connection.disconnect()
    await provider.close()
  })

  async function startNodes(tokens: AuthorizationTokensOptions): Promise<void> {
    const { issuer, clientId, clientSecret } = provider
    const keys = createKeys()
    for (let count = 0; count < 2; count++) {
      const connection = new Redis(redis.port, '127.0.0.1')
      connections.push(connection)
      const options = { url: origin, resource: `${origin}/mcp`, keys, tokens, store: redisStore(connection) }
      const upstream = async () => oidc({ issuer, clientId, clientSecret, scopes: ['openid'] })
      front.nodes.push(await startFacade(options, { upstream }))
    }
  }

  /** Signs in with the first client. Returns the file with its credentials. */
  async function signIn(kind: SignInClient): Promise<string> {
    const user = async (url: URL, redirectUri: string): Promise<URL> => {
      const browser = new Browser()
      const isDone = (target: string): boolean => target.startsWith(redirectUri)
      return new URL((await browser.submit(await browser.open(url.href, isDone), 'allow', isDone)).url)
    }
    const signedIn = new SignedIn(kind, `${origin}/mcp`, { user })
    await signedIn.connect()
    await signedIn.close()
    const file = join(dir, 'credentials.json')
    const { wallet } = signedIn
    await writeFile(file, JSON.stringify({ client: wallet.clientInformation(), tokens: wallet.tokens() }))
    return file
  }

  /** Lets both clients call a tool with expired tokens at the same time, again and again. Resolves with `false` if they lose their sign-in. */
  async function keepsSignIn(kinds: readonly SignInClient[]): Promise<boolean> {
    const [first] = kinds
    const file = await signIn(first as SignInClient)
    const clients = kinds.map((kind) => new ClientProcess(kind, `${origin}/mcp`, file))
    try {
      while (front.refreshes.length < REFRESHES) {
        front.expireTokens()
        const attempts = await Promise.all(clients.map((client) => client.call()))
        if (attempts.includes(0)) return false
      }
      return true
    } finally {
      for (const client of clients) client.stop()
    }
  }

  for (const kinds of [
    [V1, V1],
    [V1, V2_LEGACY],
    [V2_MODERN, V2_MODERN],
  ] as const)
    it(`a ${kinds[0].name} and a ${kinds[1].name} keep their sign-in over ${REFRESHES} refreshes`, async () => {
      await startNodes({})
      expect(await keepsSignIn(kinds), JSON.stringify(front.refreshes)).to.equal(true)
      expect(new Set(front.refreshes)).to.deep.equal(new Set([200]))
      expect(front.cuts).to.be.at.least(REFRESHES / 10)
    })

  it('the same clients lose their sign-in with refreshGraceSeconds: 0', async () => {
    await startNodes({ refreshGraceSeconds: 0 })
    expect(await keepsSignIn([V1, V1])).to.equal(false)
  })
})
