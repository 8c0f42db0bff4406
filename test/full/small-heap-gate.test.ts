import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { flood } from '../support/attacks/flood.ts'
import { type ResourceProgram, startResourceProgram } from '../support/attacks/resource-program.ts'

const PROGRAM = new URL('../attacks/resources/gate.program.js', import.meta.url)
const MIB = 1024 * 1024

/** The memory that an attack may leave behind: code that V8 compiled, and sockets that are not yet closed. */
const NOISE = 4 * MIB
/** The memory that a refused request may leave behind: an entry with its address, but not its token. */
const PER_REQUEST = 500

describe('a protected server in a small heap', function () {
  this.timeout(240_000)
  let program: ResourceProgram
  let token: string
  let heapBefore: number
  const sockets: Socket[] = []

  const start = async (env: Readonly<Record<string, string>> = {}): Promise<void> => {
    program = await startResourceProgram(PROGRAM, { env })
    token = await (await fetch(`${program.origin}/token`)).text()
    await validRequest()
    heapBefore = (await program.memory()).heapUsed
  }
  beforeEach(() => start())
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy()
  })

  const call = (text: string): string =>
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'length', arguments: { text } },
    })

  const HEADERS = [
    'Host: 127.0.0.1',
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    'MCP-Protocol-Version: 2025-11-25',
  ]

  function post(body: string, ...headers: readonly string[]): string {
    const lines = [...HEADERS, `Content-Length: ${Buffer.byteLength(body)}`, ...headers]
    return `POST /mcp HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`
  }

  /** Expects that a request with a valid token succeeds. */
  async function validRequest(): Promise<void> {
    const counts = await flood(program.port, 1, () =>
      post(call('abc'), `Authorization: Bearer ${token}`, 'X-Forwarded-For: 192.0.2.1'),
    )
    expect(counts).to.deep.equal({ 200: 1 })
  }

  async function survives(maxLeftBehind = 16 * MIB): Promise<void> {
    const { heapUsed } = await program.expectSurvival(validRequest)
    expect(heapUsed - heapBefore, 'memory that is left behind').to.be.below(maxLeftBehind)
  }

  const address = (index: number): string =>
    `X-Forwarded-For: 2001:db8:${(index >> 16).toString(16)}:${(index & 0xffff).toString(16)}::1`

  const jwt = (index: number): string => {
    const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const claims = { iss: 'https://auth.example.com', sub: String(index), filler: 'x'.repeat(500) }
    return `${encode({ alg: 'ES256', kid: String(index) })}.${encode(claims)}.${'a'.repeat(86)}`
  }

  /** Opens connections, sends `text` on each, and resolves when the server has all of them open. */
  async function open(count: number, text: string): Promise<readonly Socket[]> {
    const opened = Array.from({ length: count }, () => connect(program.port, '127.0.0.1'))
    sockets.push(...opened)
    for (const socket of opened) socket.setEncoding('latin1').on('error', () => undefined)
    await Promise.all(opened.map((socket) => once(socket, 'connect')))
    for (const socket of opened) socket.write(text)
    return opened
  }

  async function statusOf(socket: Socket): Promise<string> {
    const [text] = (await once(socket, 'data')) as [string]
    return text.slice(0, 'HTTP/1.1 200'.length)
  }

  const FLOODS: readonly {
    readonly attack: string
    readonly count: number
    readonly statuses: readonly string[]
    readonly request: (index: number) => string
    readonly maxLeftBehind?: number
  }[] = [
    {
      attack: '5,000 requests, each with its own forged token from its own network',
      count: 5_000,
      statuses: ['401'],
      request: (index) => post(call('a'), `Authorization: Bearer ${jwt(index)}`, address(index)),
    },
    {
      attack: '5,000 DPoP proofs for forged tokens',
      count: 5_000,
      statuses: ['401'],
      request: (index) =>
        post(call('a'), `Authorization: DPoP ${jwt(index)}`, `DPoP: ${jwt(index)}`, address(index)),
    },
    {
      attack: '3,000 requests with other host names and long paths, from which the resource is derived',
      count: 3_000,
      statuses: ['401'],
      request: (index) => `GET /${'p'.repeat(8_000)}${index} HTTP/1.1\r\nHost: h${index}.example\r\n\r\n`,
      // The server caches 1,000 resources. Each contains the host and the path several times.
      maxLeftBehind: 32 * MIB,
    },
    {
      attack: '5,000 GET streams without a token',
      count: 5_000,
      statuses: ['401'],
      request: (index) =>
        `GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n${address(index)}\r\n\r\n`,
    },
  ]

  for (const { attack, count, statuses, request, maxLeftBehind = NOISE + PER_REQUEST * count } of FLOODS)
    it(`gate: memory: ${attack}: ${statuses.join(' or ')}, and bounded memory`, async () => {
      const counts = await flood(program.port, count, request)
      expect(Object.keys(counts)).to.have.members(statuses)
      expect(Object.values(counts).reduce((sum, more) => sum + more, 0)).to.equal(count)
      await survives(maxLeftBehind)
    })

  it('gate: memory: 3,000 envelopes with a good token: bounded memory', async () => {
    const counts = await flood(program.port, 3_000, (index) => {
      const envelope = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'x'.repeat(700) + index, version: '1' },
      }
      const params = { _meta: envelope }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params })
      return post(body, `Authorization: Bearer ${token}`, 'Mcp-Method: tools/list').replace(
        'Version: 2025-11-25',
        'Version: 2026-07-28',
      )
    })
    expect(counts).to.deep.equal({ 200: 3_000 })
    await survives()
  })

  it('gate: memory: 500 bodies that never arrive, without a token: 401', async () => {
    const waiting = await open(500, post('x'.repeat(100)).slice(0, -50))
    const statuses = new Set(await Promise.all(waiting.map(statusOf)))
    // All of them have the same address.
    for (const status of statuses) expect(status).to.be.oneOf(['HTTP/1.1 401', 'HTTP/1.1 429'])
    await survives()
  })

  it('gate: memory: 500 bodies that never arrive, with a good token: 408', async () => {
    await program.stop()
    await start({ BODY_TIMEOUT_MS: '1000' })
    const slow = post('x'.repeat(100), `Authorization: Bearer ${token}`).slice(0, -50)
    const waiting = await open(500, slow)
    const statuses = waiting.map(statusOf)
    await validRequest()
    expect(new Set(await Promise.all(statuses))).to.deep.equal(new Set(['HTTP/1.1 408']))
    await survives()
  })

  it('gate: memory: 1,000 valid bodies of 64 KiB at the same time: 200 for all of them', async () => {
    const body = call('x'.repeat(65_536))
    const request = post(body, `Authorization: Bearer ${token}`)
    const waiting = await open(1_000, request.slice(0, -1))
    await validRequest()
    const statuses = waiting.map(statusOf)
    for (const socket of waiting) socket.write(request.slice(-1))
    expect(new Set(await Promise.all(statuses))).to.deep.equal(new Set(['HTTP/1.1 200']))
    await survives()
  })

  it('gate: memory: 500 bodies above the limit: 413, and their rest is not kept', async () => {
    const body = 'x'.repeat(300_000)
    const waiting: string[] = []
    for (let round = 0; round < 5; round++) {
      const opened = await open(100, post(body, `Authorization: Bearer ${token}`))
      waiting.push(...(await Promise.all(opened.map(statusOf))))
      for (const socket of opened) socket.destroy()
    }
    expect(new Set(waiting)).to.deep.equal(new Set(['HTTP/1.1 413']))
    await survives()
  })
})
