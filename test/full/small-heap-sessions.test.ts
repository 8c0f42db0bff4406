import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { type ResourceProgram, startResourceProgram } from '../support/attacks/resource-program.ts'
import {
  bearer,
  call,
  definedOf,
  initialization,
  legacy,
  modern,
  rpc,
  send,
  type WireRequest,
} from '../support/mcp/wire.ts'

const PROGRAM = new URL('../attacks/resources/sessions.program.js', import.meta.url)

const initialize = (clientInfo: object = { name: 'test', version: '1' }) =>
  legacy(initialization({}, clientInfo), {
    'mcp-protocol-version': undefined,
  })

describe('sessions and streams in a small heap', function () {
  this.timeout(240_000)
  let program: ResourceProgram
  const sockets: Socket[] = []
  beforeEach(async () => {
    program = await startResourceProgram(PROGRAM)
  })
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy()
  })

  /** Begins a session without a token. @returns the status of the response */
  async function beginWithoutToken(localAddress: string, { headers, body }: WireRequest): Promise<number> {
    const outgoing = httpRequest({
      host: '127.0.0.1',
      port: program.port,
      path: '/mcp',
      method: 'POST',
      agent: false,
      localAddress,
      headers: definedOf(headers ?? {}),
    })
    outgoing.end(body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    response.resume()
    await once(response, 'end')
    return response.statusCode as number
  }

  const ask = (user: string, request: WireRequest, headers: Record<string, string> = {}) =>
    send(program.port, { ...request, headers: { ...request.headers, ...bearer(user), ...headers } })

  const begin = async (user: string, request = initialize()): Promise<Record<string, string>> => ({
    'mcp-session-id': (await ask(user, request)).headers.get('mcp-session-id') ?? '',
  })

  /** Sends a request and never reads the response. */
  async function unread(user: string, { headers, body = '' }: WireRequest, method = 'POST'): Promise<void> {
    const socket = connect(program.port, '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.pause()
    const lines = Object.entries(definedOf({ ...headers, ...bearer(user) })).map(
      ([name, value]) => `${name}: ${value}`,
    )
    const length = Buffer.byteLength(body as string)
    socket.write(
      [`${method} /mcp HTTP/1.1`, 'Host: x', `Content-Length: ${length}`, ...lines, '', body].join('\r\n'),
    )
  }

  /** Expects that another user can use an existing session, a new session, and a stream. */
  const validRequests = (session: Record<string, string>) => async (): Promise<void> => {
    for (const own of [session, await begin('bob')]) {
      const answer = await ask('bob', legacy(call('echo', { text: 'hello' })), own)
      expect(answer.message.result.content[0].text).to.equal('hello')
    }
  }

  it('memory of sessions: 130 sessions of one user with results of 1 to 3 MB each: the server survives with a heap of 128 MB, and others keep their sessions', async () => {
    const session = await begin('bob')
    for (let time = 0; time < 130; time++) {
      const own = await begin('ada')
      if (time % 2 === 0) await ask('ada', legacy(call('big')), own)
      else await ask('ada', legacy(call('echo', { text: 'x'.repeat(900_000) })), own)
    }
    await program.expectSurvival(validRequests(session))
  })

  it('memory of sessions: 130 sessions of one user that initialize with 130,000 characters: the server survives, and others keep their sessions', async () => {
    const session = await begin('bob')
    const large = { name: 'test', version: '1', title: 'x'.repeat(129_000) }
    for (let time = 0; time < 130; time++)
      expect(await begin('ada', initialize(large))).not.to.deep.equal({ 'mcp-session-id': '' })
    await program.expectSurvival(validRequests(session))
  })

  it('memory of sessions: 300 sessions of 10 addresses without a token that initialize with 130,000 and with 8,000 bytes: the larger requests are refused, the server survives, and users keep their sessions', async () => {
    const session = await begin('bob')
    const sized = (length: number) =>
      initialize({ name: 'test', version: '1', title: '中'.repeat(length / 3) })
    for (let time = 0; time < 300; time++) {
      const address = `127.0.0.${(time % 10) + 10}`
      expect(await beginWithoutToken(address, sized(130_000))).to.equal(400)
      expect(await beginWithoutToken(address, sized(7_800))).to.equal(200)
    }
    await program.expectSurvival(validRequests(session))
  })

  it('memory of sessions: 100 sessions of one user with 1,100 reports each, and a progressToken that ends in 中: the server survives, and others keep their sessions', async () => {
    const session = await begin('bob')
    const params = { name: 'report', arguments: {}, _meta: { progressToken: `${'x'.repeat(59)}中` } }
    for (let time = 0; time < 100; time++)
      await ask('ada', legacy(rpc('tools/call', params)), await begin('ada'))
    await program.expectSurvival(validRequests(session))
  })

  it('memory of sessions: 100 streams of each kind that are never read, with 100,000 notifications: the server survives, and others are served', async () => {
    const session = await begin('bob')
    const uris = Array.from({ length: 100 }, (_, id) => `notes://${id}`)
    for (let time = 0; time < 100; time++) {
      const listening = { notifications: { toolsListChanged: true, resourceSubscriptions: uris } }
      await unread('ada', modern('subscriptions/listen', listening))
      await unread('eve', { headers: { accept: 'text/event-stream', ...(await begin('eve')) } }, 'GET')
    }
    for (let time = 0; time < 50; time++)
      expect(await (await fetch(`${program.origin}/notify`)).text()).to.equal('sent')
    await program.expectSurvival(validRequests(session))
  })

  it('memory of sessions: 5 calls that report 120 MB each without waiting, to clients that never read: the server survives, and others are served', async () => {
    const session = await begin('bob')
    const params = { name: 'flood', arguments: {}, _meta: { progressToken: 1 } }
    for (let time = 0; time < 5; time++) {
      if (time % 2 === 0) await unread('ada', legacy(rpc('tools/call', params), await begin('ada')))
      else await unread('ada', modern('tools/call', params))
    }
    await ask('bob', modern('tools/call', params))
    await program.expectSurvival(validRequests(session))
  })
})
