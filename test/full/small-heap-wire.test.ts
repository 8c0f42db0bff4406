import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { type ResourceProgram, startResourceProgram } from '../support/attacks/resource-program.ts'
import { beginSession, call, definedOf, legacy, rpc, send, type WireRequest } from '../support/mcp/wire.ts'

const PROGRAM = new URL('../attacks/resources/wire.program.js', import.meta.url)
const HUNDRED = Array.from({ length: 100 }, (_, id) => id)

const batch = (message: (id: number) => unknown): WireRequest =>
  legacy(HUNDRED.map(message), { 'mcp-protocol-version': '2025-03-26' })
const readPage = (id: number) => rpc('resources/read', { uri: 'test://page' }, id)
const wideBody = (bytes: number): WireRequest =>
  legacy(JSON.stringify(call('wide', { x: 'here' })).replace('"here"', `[${'{},'.repeat(bytes / 3)}{}]`))

for (const mode of ['', 'sessions'] as const) {
  describe(`responses and bodies in a small heap${mode && ', with sessions'}`, function () {
    this.timeout(120_000)
    let program: ResourceProgram
    let session: Record<string, string> = {}
    const sockets: Socket[] = []
    beforeEach(async () => {
      program = await startResourceProgram(PROGRAM, { args: [mode] })
      if (mode === 'sessions') session = await begin()
    })
    afterEach(() => {
      for (const socket of sockets.splice(0)) socket.destroy()
    })

    const begin = () => beginSession({ send: (request) => send(program.port, request) })

    const inSession = (request: WireRequest, own = session): WireRequest => ({
      ...request,
      headers: { ...request.headers, ...own },
    })

    async function validRequest(): Promise<void> {
      const own = mode === 'sessions' ? await begin() : {}
      const { status } = await send(program.port, inSession(legacy(call('wide')), own))
      expect(status).to.equal(200)
    }

    /** Sends requests on one connection and does not read the responses. */
    async function unread(...requests: readonly WireRequest[]): Promise<void> {
      const socket = connect(program.port, '127.0.0.1').on('error', () => undefined)
      sockets.push(socket)
      await once(socket, 'connect')
      socket.pause()
      const texts = requests.map(({ headers = {}, body = '' }) => {
        const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}\r\n`)
        return `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body as string}`
      })
      socket.write(texts.join(''))
    }

    const survives = async (): Promise<void> => {
      // The attack goes on while valid requests are served.
      for (let index = 0; index < 20; index++) await validRequest()
      // Bodies of 64 MiB and the responses of several connections wait outside the heap, until the next garbage collection.
      await program.expectSurvival(validRequest, { maxRssMiB: 448 })
    }

    it(`small heap${mode && ' with sessions'}: 10 connections with a batch of 100 reads of 1 MB each, which are not read: bounded memory, and valid requests succeed`, async () => {
      for (let index = 0; index < 10; index++)
        await unread(inSession(batch(readPage), mode === 'sessions' ? await begin() : {}))
      await survives()
    })

    it(`small heap${mode && ' with sessions'}: a batch of 100 calls with results of 3 MB each, whose client reads: all are served`, async () => {
      const { status, text } = await send(program.port, inSession(batch((id) => call('large', {}, id))))
      expect(status).to.equal(200)
      expect(text.length).to.be.above(300_000_000)
      await survives()
    })

    it(`small heap${mode && ' with sessions'}: 160 pipelined reads of 1 MB, which are not read: bounded memory, and valid requests succeed`, async () => {
      await unread(...Array.from({ length: 160 }, (_, id) => inSession(legacy(readPage(id)))))
      await survives()
    })

    it(`small heap${mode && ' with sessions'}: 8 bodies of 4.1 MB of empty objects at the same time: 401, since no such body can be read without a token, and valid requests succeed`, async () => {
      const request = inSession(wideBody(4_100_000))
      const answers = await Promise.all(Array.from({ length: 8 }, () => send(program.port, request)))
      for (const { status } of answers) expect(status).to.equal(401)
      await survives()
    })

    it(`small heap${mode && ' with sessions'}: 16 bodies of 2 MB of empty objects at the same time: one after the other is served or gets 503, and valid requests succeed`, async () => {
      const request = inSession(wideBody(2_000_000))
      const answers = await Promise.all(Array.from({ length: 16 }, () => send(program.port, request)))
      for (const { status } of answers) expect(status).to.be.oneOf([200, 503])
      await survives()
    })
  })
}
