import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { createKeys } from '../../src/authorization/keys.ts'
import { SIGN_IN_CLIENTS, SignedIn, type SignInClient } from '../full/sign-in-clients.ts'
import { Browser } from '../support/authorization/browser.ts'
import { startGithub } from '../support/authorization/github.ts'
import { startDevProgram, stopDevPrograms } from '../support/cli/dev.ts'
import { compileProject, linkPackage, startProject, stopProjects } from '../support/cli/init-project.ts'
import { runCommand } from '../support/cli/run-command.ts'
import type { StandIn } from '../support/cli/stand-in.ts'
import { freePort, freePorts } from '../support/free-port.ts'
import { redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const STAND_IN = new URL('../support/cli/provider.program.js', import.meta.url).href

const TENANT = '11111111-2222-3333-4444-555555555555'
const ADA = 'AAAAAAAA-0000-4000-8000-000000000000'
const POOL = 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_aBcDeFgHi'
const COGNITO_DOMAIN = 'https://notes.auth.eu-central-1.amazoncognito.com'
const client = { id: 'client-of-the-server', secret: 'hunter2-hunter2-hunter2' }

interface ProviderCase {
  readonly name: 'github' | 'google' | 'entra' | 'cognito'
  readonly allowList: string
  readonly secrets: Readonly<Record<string, string>>
  /** The endpoints and the claims of Ada, as the provider documents them, and who may not sign in. */
  readonly standIn?: Omit<StandIn, 'client' | 'redirectUri'>
  readonly allowed?: string
  /** Changes of the claims with which a user is not allowed. */
  readonly denied?: readonly (readonly [title: string, changes: Readonly<Record<string, unknown>>])[]
}

const PROVIDERS: readonly ProviderCase[] = [
  {
    name: 'github',
    allowList: 'ALLOWED_IDS',
    secrets: { GITHUB_CLIENT_ID: client.id, GITHUB_CLIENT_SECRET: client.secret },
  },
  {
    name: 'google',
    allowList: 'ALLOWED_EMAILS',
    secrets: { GOOGLE_CLIENT_ID: client.id, GOOGLE_CLIENT_SECRET: client.secret },
    standIn: {
      issuer: 'https://accounts.google.com',
      authorize: 'https://accounts.google.com/o/oauth2/v2/auth',
      token: 'https://oauth2.googleapis.com/token',
      jwks: 'https://www.googleapis.com/oauth2/v3/certs',
      claims: {
        sub: '110169484474386276334',
        email: 'Ada@example.com',
        email_verified: true,
        hd: 'example.com',
        name: 'Ada',
      },
    },
    allowed: 'grace@example.com, ada@example.com',
    denied: [
      ['an address that is not in the list', { email: 'eve@example.com' }],
      ['an address that is not verified', { email_verified: false }],
      ['an address of another mail service', { hd: undefined }],
    ],
  },
  {
    name: 'entra',
    allowList: 'ALLOWED_OBJECT_IDS',
    secrets: { ENTRA_TENANT_ID: TENANT, ENTRA_CLIENT_ID: client.id, ENTRA_CLIENT_SECRET: client.secret },
    standIn: {
      issuer: `https://login.microsoftonline.com/${TENANT}/v2.0`,
      authorize: `https://login.microsoftonline.com/${TENANT}/oauth2/v2.0/authorize`,
      token: `https://login.microsoftonline.com/${TENANT}/oauth2/v2.0/token`,
      jwks: `https://login.microsoftonline.com/${TENANT}/discovery/v2.0/keys`,
      claims: {
        sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
        oid: ADA.toLowerCase(),
        tid: TENANT,
        ver: '2.0',
        name: 'Ada',
        preferred_username: 'ada@example.com',
      },
    },
    allowed: ADA,
    denied: [['the object id of another user', { oid: TENANT }]],
  },
  {
    name: 'cognito',
    allowList: 'ALLOWED_EMAILS',
    secrets: {
      COGNITO_USER_POOL_ID: 'eu-central-1_aBcDeFgHi',
      COGNITO_CLIENT_ID: client.id,
      COGNITO_CLIENT_SECRET: client.secret,
    },
    standIn: {
      issuer: POOL,
      authorize: `${COGNITO_DOMAIN}/oauth2/authorize`,
      token: `${COGNITO_DOMAIN}/oauth2/token`,
      userInfo: `${COGNITO_DOMAIN}/oauth2/userInfo`,
      jwks: `${POOL}/.well-known/jwks.json`,
      claims: {
        sub: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee',
        token_use: 'id',
        'cognito:username': 'ada',
        email: 'ada@example.com',
        email_verified: true,
      },
    },
    allowed: 'ada@example.com',
    denied: [
      ['an address that is not in the list', { email: 'eve@example.com' }],
      ['an address that is not verified', { email_verified: false }],
    ],
  },
]

/** Runs the command in this process. */
async function init(...argv: string[]): Promise<string> {
  const { exitCode, stdout } = await runCommand(['init', ...argv])
  expect(exitCode).to.equal(0)
  return stdout
}

/** A user in a browser who allows every request. The provider signs the user in at once. */
function user(
  standIn?: StandIn,
  claims: Readonly<Record<string, unknown>> = {},
  ended: { error?: string | null } = {},
) {
  return async (url: URL, redirectUri: string): Promise<URL> => {
    const browser = new Browser()
    const stops = (target: string) =>
      target.startsWith(redirectUri) || (standIn !== undefined && target.startsWith(standIn.authorize))
    let page = await browser.open(url.href, stops)
    if (standIn !== undefined && page.url.startsWith(standIn.authorize)) {
      const { searchParams } = new URL(page.url)
      const request = { ...Object.fromEntries(searchParams), claims }
      const code = Buffer.from(JSON.stringify(request)).toString('base64url')
      const callback = new URL(standIn.redirectUri)
      callback.search = String(new URLSearchParams({ code, state: String(searchParams.get('state')) }))
      page = await browser.open(callback.href, stops)
    }
    if (!page.url.startsWith(redirectUri)) page = await browser.submit(page, 'allow', stops)
    const end = new URL(page.url)
    ended.error = end.searchParams.get('error_description')
    return end
  }
}

/** A user who allows the requested scopes on the page of the local authorization server. */
async function signInAtDev(url: URL, redirectUri: string): Promise<URL> {
  const browser = new Browser()
  const stops = (target: string) => target.startsWith(redirectUri)
  const page = await browser.open(url.href, stops)
  const body = new URLSearchParams({ user: 'ada', scope: 'mcp:read', answer: 'allow' })
  const headers = { origin: new URL(page.url).origin }
  return new URL((await browser.open(page.url, stops, { method: 'POST', body, headers })).url)
}

const [, , modern] = SIGN_IN_CLIENTS as readonly [SignInClient, SignInClient, SignInClient]

describe('mcp-gatekit init --provider', function () {
  this.timeout(240_000)
  let scratch: string
  const folderOf = (name: string) => join(scratch, name)
  /** The errors of the compiler by project. */
  const errors = new Map<string, string>()

  before(async () => {
    // In this project, so that the packages of the new project are found.
    await mkdir(join(root, 'build'), { recursive: true })
    scratch = await mkdtemp(join(root, 'build', 'init-provider-'))
    for (const { name } of PROVIDERS) {
      await init(folderOf(name), '--provider', name)
      await linkPackage(folderOf(name))
      errors.set(name, await compileProject(folderOf(name)))
    }
  })
  afterEach(async () => {
    await stopDevPrograms()
    await stopProjects()
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  for (const { name, allowList, secrets } of PROVIDERS) {
    it(`the project for ${name} has the files of the provider, compiles, and describes every variable`, async () => {
      const files = await readdir(folderOf(name))
      expect(files).to.have.members([
        'package.json',
        'tsconfig.json',
        'app.ts',
        'server.ts',
        'sign-in.ts',
        'store.ts',
        `${name}.ts`,
        'server.test.ts',
        'README.md',
        '.gitignore',
        'Dockerfile',
        '.dockerignore',
        '.env.example',
        'node_modules',
        'dist',
      ])
      expect(errors.get(name)).to.equal('')
      const example = await readFile(join(folderOf(name), '.env.example'), 'utf8')
      const variables = [...example.matchAll(/^(?:# )?([A-Z_]+)=$/gm)].map(([, variable]) => variable)
      const optional = name === 'github' ? ['GITHUB_URL'] : []
      expect(variables).to.have.members([
        ...Object.keys(secrets),
        allowList,
        ...optional,
        'RESOURCE',
        'AUTHORIZATION_KEYS_FILE',
        'AUTHORIZATION_KEYS',
        'REDIS_URL',
      ])
      const sources = await Promise.all(
        ['server.ts', 'sign-in.ts', `${name}.ts`, 'README.md'].map((file) =>
          readFile(join(folderOf(name), file), 'utf8'),
        ),
      )
      expect(sources.join('')).not.to.match(/my-(?:server|provider|page)/)
      const [guide = ''] = /docs\/guides\/providers\/[a-z-]+\.md/.exec(sources.join('')) ?? []
      expect(await readFile(join(root, guide), 'utf8')).to.contain('/signin/callback')
      const { dependencies, devDependencies } = JSON.parse(
        await readFile(join(folderOf(name), 'package.json'), 'utf8'),
      )
      expect(dependencies).to.include.keys('ioredis', 'oidc-provider', 'openid-client')
      expect(devDependencies).not.to.include.keys('oidc-provider', 'openid-client')
    })
  }

  it('prints the steps that lead to the sign-in, and takes --name and --resource', async () => {
    const folder = folderOf('with-options')
    const resource = 'https://mcp.example.com/tools'
    const said = await init(folder, '--provider', 'entra', '--name', 'notes', '--resource', resource)
    expect(said).to.match(
      /^To sign users in with Microsoft Entra ID:\n {2}cp \.env\.example \.env\n.*entra-id\.md/m,
    )
    expect(await readFile(join(folder, 'server.ts'), 'utf8')).to.contain(
      `= process.env.RESOURCE || '${resource}'\n`,
    )
    expect(await readFile(join(folder, 'README.md'), 'utf8')).to.match(
      /^# notes\n\n.* with Microsoft Entra ID,/,
    )
  })

  it('git ignores .env and the keys of a project, and not .env.example', async () => {
    const ignored = (await readFile(join(folderOf('github'), '.gitignore'), 'utf8')).split('\n')
    expect(ignored).to.include.members(['.env', '!.env.example', 'keys.json'])
    expect(ignored.indexOf('!.env.example')).to.be.above(ignored.indexOf('.env.*'))
  })

  for (const { name, secrets } of PROVIDERS)
    it(`the server for ${name} prints a call that works if the secrets are not set`, async () => {
      const port = await freePort()
      const empty = Object.fromEntries(Object.keys(secrets).map((variable) => [variable, '']))
      const server = startProject(folderOf(name), { PORT: String(port), ...empty })
      const [, url = '', token = '', body = ''] = await server.printed(
        /^curl (\S+) -H 'Authorization: Bearer ([^']+)' .* -d '([^']+)'$/m,
      )
      expect(server.output).to.contain(`${Object.keys(secrets).join(' and ')} are not set`)
      const headers = {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
      }
      const response = await fetch(url, { method: 'POST', headers, body })
      expect(await response.text()).to.contain('Hello, Ada!')
      expect((await fetch(new URL('/authorize', url))).status).to.equal(404)
    })

  it('a client signs in at the local authorization server of dev, also if the secrets are set', async () => {
    const [port, authPort, consolePort] = await freePorts(3)
    const argv = ['--port', String(consolePort), '--auth-port', String(authPort), 'dist/server.js']
    const { secrets } = PROVIDERS[0] as ProviderCase
    const program = startDevProgram(argv, {
      cwd: folderOf('github'),
      env: { PORT: String(port), ...secrets },
    })
    await program.said('stdout', /Listening on/)
    const metadata = await fetch(`http://127.0.0.1:${port}/.well-known/oauth-protected-resource/mcp`)
    expect(await metadata.json()).to.deep.include({
      authorization_servers: [`http://127.0.0.1:${authPort}`],
    })
    const signedIn = new SignedIn(modern, `http://127.0.0.1:${port}/mcp`, { user: signInAtDev })
    await signedIn.connect()
    const result = await signedIn.client.callTool({ name: 'greet', arguments: { name: 'Ada' } })
    expect(result.content[0].text).to.equal('Hello, Ada!')
    await signedIn.close()
  })

  describe('with the secrets of the stand-in for GitHub', () => {
    let github: Awaited<ReturnType<typeof startGithub>>
    let port: number
    let env: Record<string, string>

    beforeEach(async () => {
      port = await freePort()
      github = await startGithub(`http://127.0.0.1:${port}/signin/callback`)
      env = {
        PORT: String(port),
        GITHUB_CLIENT_ID: github.clientId,
        GITHUB_CLIENT_SECRET: github.clientSecret,
        GITHUB_URL: github.baseUrl,
      }
    })
    afterEach(() => github.close())

    const resource = () => `http://127.0.0.1:${port}/mcp`

    it('the official SDKs sign in at the server for github as a listed account, and call a tool', async () => {
      const server = startProject(folderOf('github'), { ...env, ALLOWED_IDS: ' 1 , 583231,' })
      await server.printed(
        new RegExp(`Redirect URI at the provider: http://127.0.0.1:${port}/signin/callback\n`),
      )
      expect(server.output).not.to.contain('No account may sign in')
      for (const kind of SIGN_IN_CLIENTS) {
        const signedIn = new SignedIn(kind, resource(), { user: user() })
        await signedIn.connect()
        const result = await signedIn.client.callTool({ name: 'greet', arguments: { name: 'Ada' } })
        expect(result.content[0].text).to.equal('Hello, Ada!')
        await signedIn.close()
      }
      expect(server.output).not.to.contain(github.clientSecret)
    })

    it('the server for github has a page on which users disconnect applications and sign out', async () => {
      const server = startProject(folderOf('github'), { ...env, ALLOWED_IDS: '583231' })
      await server.printed(/Redirect URI/)
      const account = `http://127.0.0.1:${port}/account`
      const browser = new Browser()
      const page = await browser.open(account)
      expect([page.status, page.url]).to.deep.equal([200, account])
      expect(page.body).to.contain('Connected applications')
      const csrf = /name="csrf" value="([^"]+)"/.exec(page.body)?.[1] ?? ''
      const out = await browser.open(account, undefined, {
        method: 'POST',
        body: new URLSearchParams({ csrf, action: 'sign-out' }),
        headers: { origin: `http://127.0.0.1:${port}`, 'sec-fetch-site': 'same-origin' },
      })
      expect(out.status).to.equal(200)
      expect(out.body).to.contain('You have signed out of this page')
    })

    it('/health and /ready respond without a token, and a restart with REDIS_URL keeps the sign-in', async function () {
      skipIf(this, redisMissing())
      const redis = await startRedis()
      try {
        const shared = {
          ...env,
          ALLOWED_IDS: '583231',
          AUTHORIZATION_KEYS: JSON.stringify(createKeys()),
          REDIS_URL: `redis://127.0.0.1:${redis.port}`,
        }
        const first = startProject(folderOf('github'), shared)
        await first.printed(/Redirect URI/)
        const probe = async (path: string) => {
          const response = await fetch(`http://127.0.0.1:${port}${path}`)
          return [response.status, await response.json()]
        }
        expect(await probe('/health')).to.deep.equal([200, { status: 'ok' }])
        expect(await probe('/ready')).to.deep.equal([200, { status: 'ready' }])
        const signedIn = new SignedIn(modern, resource(), { user: user() })
        await signedIn.connect()
        await first.stop('SIGTERM')
        const second = startProject(folderOf('github'), shared)
        await second.printed(/Redirect URI/)
        const { wallet } = signedIn
        const response = await fetch(`http://127.0.0.1:${port}/token`, {
          method: 'POST',
          body: new URLSearchParams({
            grant_type: 'refresh_token',
            client_id: String(wallet.clientInformation()?.client_id),
            refresh_token: String(wallet.tokens()?.refresh_token),
          }),
        })
        expect(response.status).to.equal(200)
        await signedIn.close()
      } finally {
        await redis.stop()
      }
    })

    it('the variables of a file .env are used, and localhost as the host of RESOURCE', async () => {
      const local = await startGithub(`http://localhost:${port}/signin/callback`)
      const url = `http://localhost:${port}/mcp`
      const variables = {
        ...env,
        GITHUB_CLIENT_SECRET: local.clientSecret,
        GITHUB_URL: local.baseUrl,
        ALLOWED_IDS: '583231',
        RESOURCE: url,
        AUTHORIZATION_KEYS_FILE: '',
      }
      const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
      await writeFile(join(folderOf('github'), '.env'), lines.join('\n'))
      try {
        const server = startProject(folderOf('github'), {})
        await server.printed(/Redirect URI/)
        const signedIn = new SignedIn(modern, url, { user: user() })
        expect(await signedIn.connect()).to.equal(modern.revision)
        await signedIn.close()
      } finally {
        await rm(join(folderOf('github'), '.env'))
        await local.close()
      }
    })

    for (const [title, allowed, message] of [
      ['is empty', ' , ', 'No account may sign in, because ALLOWED_IDS is empty'],
      [
        'has the login of the account and the id of another one',
        'ada,58323',
        'This account is not in ALLOWED_IDS',
      ],
    ] as const)
      it(`the server for github denies a sign-in with a reason if ALLOWED_IDS ${title}`, async () => {
        const server = startProject(folderOf('github'), { ...env, ALLOWED_IDS: allowed })
        await server.printed(/Redirect URI/)
        const ended: { error?: string } = {}
        const signedIn = new SignedIn(modern, resource(), { user: user(undefined, {}, ended) })
        expect(await signedIn.connect().catch((error: unknown) => error)).to.be.instanceOf(Error)
        expect(ended.error).to.equal(message)
        await server.printed(/^Denied a sign-in: {"id":"583231","login":"ada"}$/m)
        if (message.startsWith('No account')) await server.printed(/^No account may sign in, because/m)
      })
  })

  for (const { name, standIn, secrets, allowList, allowed = '', denied = [] } of PROVIDERS) {
    if (standIn === undefined) continue
    it(`the server for ${name} signs in a listed user with an ID token of the documented form, and denies others`, async () => {
      const port = await freePort()
      const redirectUri = `http://127.0.0.1:${port}/signin/callback`
      const provider = { ...standIn, client, redirectUri }
      const env = { PORT: String(port), ...secrets, [allowList]: allowed, STAND_IN: JSON.stringify(provider) }
      const server = startProject(folderOf(name), env, [STAND_IN])
      await server.printed(/Redirect URI/)
      const signInWith = (changes: Readonly<Record<string, unknown>>, ended = {}) => {
        const claims = { ...standIn.claims, ...changes }
        return new SignedIn(modern, `http://127.0.0.1:${port}/mcp`, { user: user(provider, claims, ended) })
      }
      const signedIn = signInWith({})
      expect(await signedIn.connect()).to.equal(modern.revision)
      const result = await signedIn.client.callTool({ name: 'greet', arguments: { name: 'Ada' } })
      expect(result.content[0].text).to.equal('Hello, Ada!')
      await signedIn.close()
      for (const [title, changes] of denied) {
        const ended: { error?: string } = {}
        const failed = await signInWith(changes, ended)
          .connect()
          .catch((error: unknown) => error)
        expect(failed, title).to.be.instanceOf(Error)
        expect(ended.error, title).to.equal(`This account is not in ${allowList}`)
      }
      expect(server.output).not.to.contain(client.secret)
    })
  }

  describe('the start of a server with secrets', () => {
    const { secrets } = PROVIDERS[0] as ProviderCase
    const resource = 'https://mcp.example.com/mcp'

    for (const [title, env, message] of [
      ['only a part of the secrets', { GITHUB_CLIENT_ID: 'x' }, 'Set GITHUB_CLIENT_SECRET. Only a part of'],
      [
        'no keys for a public URL',
        { ...secrets, RESOURCE: resource },
        'Set AUTHORIZATION_KEYS_FILE to a file',
      ],
      [
        'keys that are not JSON',
        { ...secrets, RESOURCE: resource, AUTHORIZATION_KEYS: client.secret },
        'AUTHORIZATION_KEYS does not contain valid JSON',
      ],
      [
        'a file of keys that does not exist',
        { ...secrets, RESOURCE: resource, AUTHORIZATION_KEYS_FILE: 'missing.json' },
        'ENOENT',
      ],
    ] as const)
      it(`the server does not start with ${title}, and says what to set`, async () => {
        const server = startProject(folderOf('github'), { PORT: String(await freePort()), ...env })
        expect(await server.exitCode).to.equal(1)
        expect(server.output).to.contain(message)
        expect(server.output).not.to.contain(client.secret)
      })

    it('the server for a public URL uses the keys of a file or a variable, and serves the metadata of that URL', async () => {
      const file = join(folderOf('github'), 'keys.json')
      await runCommand(['keys', '--out', file])
      const text = await readFile(file, 'utf8')
      const { signing } = JSON.parse(text) as { signing: { kid: string }[] }
      for (const given of [{ AUTHORIZATION_KEYS_FILE: 'keys.json' }, { AUTHORIZATION_KEYS: text }]) {
        const port = await freePort()
        const env = { PORT: String(port), ...secrets, RESOURCE: resource, ...given }
        const server = startProject(folderOf('github'), env)
        await server.printed(/Redirect URI at the provider: https:\/\/mcp\.example\.com\/signin\/callback/)
        const read = async (path: string) => await (await fetch(`http://127.0.0.1:${port}${path}`)).json()
        expect(await read('/.well-known/oauth-authorization-server')).to.include({
          issuer: 'https://mcp.example.com',
        })
        expect(
          ((await read('/jwks')) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid),
        ).to.deep.equal(signing.map(({ kid }) => kid))
        await server.stop()
      }
    })
  })
})
