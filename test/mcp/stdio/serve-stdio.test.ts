import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as TransportV2 } from '@modelcontextprotocol/client/stdio'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { errorOf } from '../../support/mcp/clients.ts'
import { call, LEGACY, MODERN, rpc, signalled } from '../../support/mcp/wire.ts'

const program = fileURLToPath(new URL('../../support/mcp/stdio-server.js', import.meta.url))
const INFO = { name: 'test', version: '1.0.0' }
const CAPABILITIES = { elicitation: {} }
const TRUSTING = { trustLocal: true }

interface Handlers {
  readonly onLog: (data: unknown) => void
  readonly onUpdated: (uri: string) => void
}

/** A client of the official SDK whose transport starts the program. */
interface StdioClient {
  readonly client: any
  readonly transport: { readonly stderr: NodeJS.ReadableStream | null; onmessage?: (message: any) => void }
  readonly errors: Error[]
  readonly stderr: () => string
}

interface StdioClientKind {
  readonly name: string
  readonly revision: string
  connect(options: object, handlers?: Partial<Handlers>): Promise<StdioClient>
}

const parameters = (options: object) => ({
  command: process.execPath,
  args: [program, JSON.stringify(options)],
  env: { PATH: process.env.PATH ?? '' },
  stderr: 'pipe' as const,
})

function watched(client: any, transport: any): StdioClient {
  const errors: Error[] = []
  let text = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    text += chunk
  })
  client.onerror = (error: Error) => errors.push(error)
  return { client, transport, errors, stderr: () => text }
}

const accept = () => ({ action: 'accept' as const, content: { ok: true } })

const v2 = (mode: 'legacy' | { pin: string }): StdioClientKind['connect'] =>
  async function connect(options, { onLog, onUpdated } = {}) {
    const client = new ClientV2(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } })
    client.setRequestHandler('elicitation/create', accept)
    client.setNotificationHandler('notifications/message', ({ params }) => onLog?.(params.data))
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => onUpdated?.(params.uri))
    const transport = new TransportV2(parameters(options))
    const connected = watched(client, transport)
    await client.connect(transport)
    return connected
  }

const v1: StdioClientKind['connect'] = async (options, { onLog, onUpdated } = {}) => {
  const client = new ClientV1(INFO, { capabilities: CAPABILITIES })
  client.setRequestHandler(ElicitRequestSchema, accept)
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => onLog?.(params.data))
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => onUpdated?.(params.uri))
  const transport = new TransportV1(parameters(options))
  const connected = watched(client, transport)
  await client.connect(transport as Parameters<typeof client.connect>[0])
  return connected
}

const KINDS: readonly StdioClientKind[] = [
  { name: 'v2 client of 2025', revision: LEGACY, connect: v2('legacy') },
  { name: 'v2 client of 2026-07-28', revision: MODERN, connect: v2({ pin: MODERN }) },
  { name: 'v1 client', revision: LEGACY, connect: v1 },
]

const textOf = ({ content }: any): string => content[0].text

describe('serveStdio', () => {
  for (const { name, revision, connect } of KINDS) {
    describe(`for a ${name}`, () => {
      let connected: StdioClient
      const log = signalled<unknown>()
      const updated = signalled<string>()
      before(async () => {
        connected = await connect(
          {
            ...TRUSTING,
            hasTelemetry: true,
            instructions: 'Be kind',
            serverInfo: { name: 's', version: '2' },
          },
          { onLog: log.resolve, onUpdated: updated.resolve },
        )
      })
      after(async () => await connected.client.close())

      it(`a ${name} gets the server info, the instructions, and the revision`, () => {
        const { client } = connected
        expect(client.getServerVersion()).to.include({ name: 's', version: '2' })
        expect(client.getInstructions()).to.equal('Be kind')
        expect(client.getServerCapabilities()).to.have.keys('logging', 'tools', 'prompts', 'resources')
      })

      it(`a ${name} lists and uses tools, prompts, and resources, also those with scopes`, async () => {
        const { client } = connected
        const { tools } = await client.listTools()
        expect(tools.map((tool: { name: string }) => tool.name)).to.include.members(['echo', 'wipe'])
        expect(textOf(await client.callTool({ name: 'echo', arguments: { text: 'ä\u2028' } }))).to.equal(
          'ä\u2028',
        )
        expect(textOf(await client.callTool({ name: 'wipe' }))).to.equal('wiped')
        const { messages } = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } })
        expect(messages[0].content.text).to.equal('Hi Ada')
        const { resources } = await client.listResources()
        expect(resources.map(({ uri }: { uri: string }) => uri)).to.deep.equal(['page://one', 'secret://a'])
        expect((await client.readResource({ uri: 'secret://a' })).contents[0].text).to.equal('secret a')
      })

      it(`the context of a call of a ${name} has the context of the application, but no token and no headers`, async () => {
        const result = JSON.parse(textOf(await connected.client.callTool({ name: 'where' })))
        expect(result).to.deep.equal({ context: { url: 'stdio:' }, hasAuth: false, headers: [] })
      })

      it(`a ${name} is one caller of the limits of a tool`, async () => {
        const { client } = connected
        expect(textOf(await client.callTool({ name: 'limited' }))).to.include(
          'Time limit reached: tool limited',
        )
        expect(textOf(await client.callTool({ name: 'limited' }))).to.include(
          'Call limit reached: at most 1 call of tool limited per 60 seconds for all callers without a known address.',
        )
      })

      it(`a ${name} gets the reference of a failed call, and telemetry gets the cause on stderr`, async () => {
        const text = textOf(await connected.client.callTool({ name: 'crash' }))
        expect(text).to.match(/^The tool failed\. Reference: [-\w]{36}$/)
        const reference = text.slice(-36)
        while (!connected.stderr().includes(reference))
          await once(connected.transport.stderr as never, 'data')
        const line =
          connected
            .stderr()
            .split('\n')
            .find((one) => one.includes(reference)) ?? ''
        const event = JSON.parse(line)
        expect(event.error.message).to.equal('a secret cause')
        expect(event.attributes).to.include({
          'mcp.protocol.version': revision,
          'mcp.client.name': INFO.name,
          'mcp.client.version': INFO.version,
          'gen_ai.tool.name': 'crash',
        })
        expect(line).to.not.contain('http.')
      })

      it(`a ${name} gets progress and log messages, and output of the program goes to stderr`, async () => {
        const { client, transport } = connected
        const progress: unknown[] = []
        // The v1 client ignores a notification that arrives together with the response.
        const { onmessage } = transport
        transport.onmessage = (message: any) => {
          if (message.method === 'notifications/progress') progress.push(message.params)
          onmessage?.call(transport, message)
        }
        const options = { onprogress: () => undefined }
        const meta = { 'io.modelcontextprotocol/logLevel': 'info' }
        const params = { name: 'report', ...(revision === MODERN && { _meta: meta }) }
        const result = await (client instanceof ClientV1
          ? client.callTool(params, undefined, options)
          : client.callTool(params, options))
        expect(textOf(result)).to.equal('reported')
        expect(progress).to.have.length(1)
        expect(progress[0]).to.include({ progress: 1, total: 2, message: 'half' })
        expect(await log.promise).to.deep.equal({ said: 'so' })
        while (!/written to process\.stdout/.test(connected.stderr()))
          await once(connected.transport.stderr as never, 'data')
        expect(connected.stderr()).to.contain('printed with console.log\n')
        // A client also reports a progress notification that arrives together with the response.
        const others = connected.errors.filter(({ message }) => !message.includes('unknown token'))
        expect(others).to.deep.equal([])
      })

      it(`a ${name} is asked for input, and the state of the first round returns in the second`, async () => {
        expect(textOf(await connected.client.callTool({ name: 'ask' }))).to.equal(
          'answered true with a state',
        )
      })

      it(`a ${name} is asked for a confirmation before a tool runs`, async () => {
        expect(textOf(await connected.client.callTool({ name: 'confirmed' }))).to.equal('confirmed')
      })

      it(`a canceled call of a ${name} aborts the signal of its context`, async () => {
        const { client } = connected
        const canceling = new AbortController()
        const options = { signal: canceling.signal, onprogress: () => undefined }
        const waiting =
          client instanceof ClientV1
            ? client.callTool({ name: 'wait' }, undefined, options)
            : client.callTool({ name: 'wait' }, options)
        const ended = waiting.catch((error: Error) => error)
        // Messages arrive in order, so the server has received the call when it responds to this one.
        await client.callTool({ name: 'echo', arguments: { text: '' } })
        canceling.abort()
        expect(await ended).to.be.instanceOf(Error)
        while (!connected.stderr().includes('aborted\n'))
          await once(connected.transport.stderr as never, 'data')
      })

      it(`a ${name} that has subscribed to a resource is notified of its update`, async () => {
        const { client } = connected
        if (revision === MODERN) await client.listen({ resourceSubscriptions: ['page://one'] })
        else await client.subscribeResource({ uri: 'PAGE://one' })
        expect(textOf(await client.callTool({ name: 'change' }))).to.equal('changed')
        expect(await updated.promise).to.equal('page://one')
      })

      it(`a resource URI without a canonical form is rejected for a ${name}`, async () => {
        const error = await errorOf(connected.client.readResource({ uri: 'page://\u0000' }))
        expect(error).to.include({ code: -32_602 })
      })
    })
  }
})

/** The program with raw pipes. */
class Program {
  readonly child: ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  readonly ended: Promise<unknown[]>
  stderr = ''

  constructor(options: object) {
    this.child = spawn(process.execPath, [program, JSON.stringify(options)])
    this.#lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]()
    this.child.stderr.on('data', (chunk: Buffer) => {
      this.stderr += chunk
    })
    this.child.stdin.on('error', () => undefined)
    this.ended = once(this.child, 'close')
  }

  /** Opens a connection of 2025. */
  async initialized(): Promise<this> {
    this.send(rpc('initialize', { protocolVersion: LEGACY, capabilities: {}, clientInfo: INFO }, 'init'))
    expect((await this.next()).id).to.equal('init')
    this.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
    return this
  }

  send(...messages: unknown[]): void {
    for (const message of messages) this.child.stdin.write(`${JSON.stringify(message)}\n`)
  }

  async next(): Promise<any> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error(`the program has ended: ${this.stderr}`)
    return JSON.parse(value)
  }

  async said(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.stderr)) await once(this.child.stderr, 'data')
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.ended
  }
}

describe('serveStdio with raw input', () => {
  let running: Program
  const start = async (options: object = {}): Promise<Program> => {
    running = new Program({ ...TRUSTING, ...options })
    return await running.initialized()
  }
  afterEach(async () => await running.kill())

  /** Expects that the program still responds. */
  async function expectAlive(): Promise<void> {
    running.send(call('echo', { text: 'alive' }, 'alive'))
    expect(await running.next()).to.deep.include({
      id: 'alive',
      result: { content: [{ type: 'text', text: 'alive' }] },
    })
  }

  it('a line of 100 MB is dropped with an error, in bounded memory, and later messages are served', async () => {
    const { child } = await start()
    const part = 'x'.repeat(1_000_000)
    let peak = 0
    for (let count = 0; count < 100; count++) {
      if (!child.stdin.write(part)) await once(child.stdin, 'drain')
      peak = Math.max(peak, residentBytes(child.pid as number))
    }
    child.stdin.write('\n')
    expect((await running.next()).error).to.deep.equal({
      code: -32_600,
      message: 'A message must have at most 4194304 bytes',
    })
    expect(peak).to.be.lessThan(300_000_000)
    await expectAlive()
  })

  for (const { title, line, error } of [
    {
      title: 'JSON that is nested deeper than 128 levels',
      line: JSON.stringify(call('echo', {})).replace('{}', `${'['.repeat(100_000)}${']'.repeat(100_000)}`),
      error: { code: -32_600, message: 'JSON must not be nested deeper than 128 levels' },
    },
    { title: 'a line that is not JSON', line: '{"jsonrpc":', error: undefined },
    { title: 'a batch', line: JSON.stringify([call('echo', { text: '' })]), error: undefined },
    { title: 'a line of null bytes', line: '\0'.repeat(10_000), error: undefined },
    { title: 'an empty line', line: '', error: undefined },
    {
      title: 'a request with an object as its id',
      line: '{"jsonrpc":"2.0","id":{},"method":"ping"}',
      error: undefined,
    },
  ]) {
    it(`${title} does not end the connection${error === undefined ? '' : ', and gets an error'}`, async () => {
      const { child } = await start()
      child.stdin.write(`${line}\n`)
      if (error !== undefined) expect((await running.next()).error).to.deep.equal(error)
      await expectAlive()
    })
  }

  it('a message of one byte at a time is served', async () => {
    const { child } = await start()
    for (const byte of Buffer.from(`${JSON.stringify(call('echo', { text: 'ä' }, 7))}\r\n`)) {
      if (!child.stdin.write(Buffer.of(byte))) await once(child.stdin, 'drain')
    }
    expect(await running.next()).to.deep.include({
      id: 7,
      result: { content: [{ type: 'text', text: 'ä' }] },
    })
  })

  it('a request with the id of a request in progress is rejected', async () => {
    await start()
    running.send(call('wait', {}, 5))
    expect((await running.next()).params.data).to.equal('waiting')
    running.send(call('echo', { text: '' }, 5))
    expect(await running.next()).to.deep.include({
      id: 5,
      error: { code: -32_600, message: 'A request with the same id is in progress' },
    })
  })

  it('at most 1024 requests are in progress, and a further one is rejected', async () => {
    await start()
    running.send(...Array.from({ length: 1025 }, (_, id) => call('wait', {}, id)))
    let message = await running.next()
    while (message.method === 'notifications/message') message = await running.next()
    expect(message).to.deep.include({
      id: 1024,
      error: { code: -32_000, message: 'At most 1024 requests can be in progress' },
    })
  })

  it('a context of the application that fails is an internal error without its cause', async () => {
    running = new Program({ ...TRUSTING, context: 'fails' })
    running.send(rpc('initialize', { protocolVersion: LEGACY, capabilities: {}, clientInfo: INFO }, 1))
    expect(await running.next()).to.deep.equal({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32_603, message: 'Internal server error' },
    })
  })

  it('the end of stdin aborts requests, flushes telemetry, and ends the process', async () => {
    const { child } = await start({ hasTelemetry: true })
    running.send(call('wait', {}, 5))
    await running.next()
    child.stdin.end()
    expect(await running.ended).to.deep.equal([0, null])
    expect(running.stderr)
      .to.match(/^aborted$/m)
      .and.to.match(/^closed$/m)
    const events = running.stderr.split('\n').filter((line) => line.startsWith('{'))
    const last = events
      .map((line) => JSON.parse(line))
      .find(({ attributes }) => attributes['jsonrpc.request.id'] === '5')
    expect(last?.name).to.equal('kit.mcp.request.completed')
  })

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`${signal} aborts requests and ends a process with open handles`, async () => {
      const { child } = await start({ hasTelemetry: true, staysOpen: true })
      running.send(call('wait', {}, 5))
      await running.next()
      child.kill(signal)
      expect(await running.ended).to.deep.equal([0, null])
      expect(running.stderr)
        .to.match(/^aborted$/m)
        .and.to.match(/^closed$/m)
    })
  }

  it('close() returns the same promise at each call', async () => {
    running = new Program({ ...TRUSTING, closesTwice: true })
    await running.ended
    expect(running.stderr).to.match(/^the same promise: true$/m)
  })

  it('a client that closes stdout ends the connection', async () => {
    const { child } = await start()
    child.stdout.destroy()
    running.send(call('echo', { text: '' }))
    await running.ended
    expect(running.stderr).to.match(/^closed$/m)
  })

  it('a router without scopes is served without trustLocal', async () => {
    running = new Program({ hasNoScopes: true })
    await running.initialized()
    running.send(call('ping'))
    expect((await running.next()).result.content[0].text).to.equal('pong')
  })

  it('a router with scopes is not served without trustLocal, and the error names its operations', async () => {
    running = new Program({})
    const [code] = await running.ended
    expect(code).to.equal(1)
    expect(running.stderr)
      .to.contain('trustLocal is missing')
      .and.to.contain("tool 'wipe', resourceTemplate 'secret'")
  })
})

/** Returns the memory of a process. */
function residentBytes(pid: number): number {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}
