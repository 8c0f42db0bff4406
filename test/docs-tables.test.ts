import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { z } from 'zod'
import * as kit from '../src/index.ts'
import { createMcpAdapter, KitMcpRouter, serveStdio, VerifierUnavailableError } from '../src/index.ts'
import { EVENTS } from '../src/mcp/instrumentation/request-events.ts'
import { toolsFromOpenApi } from '../src/openapi/index.ts'
import { loadSkills } from '../src/skills/index.ts'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../src/telemetry/index.ts'
import * as testing from '../src/testing/index.ts'
import { web } from './support/mcp/entry-points.ts'
import { emitEveryEvent } from './support/mcp/every-event.ts'
import { oauth } from './support/mcp/notes.ts'
import { TaskClient } from './support/mcp/tasks.ts'
import { bearer, beginSession, call, initialization, legacy, rpc } from './support/mcp/wire.ts'
import { knownTo as optionsOf } from './support/option-lists.ts'
import { keepingEvents } from './support/telemetry/recording.ts'

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')

interface Table {
  /** The nearest heading above the table, without backticks. */
  readonly heading: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

function tablesOf(page: string): Table[] {
  const tables: Table[] = []
  let heading = ''
  let lines: string[] = []
  const end = (): void => {
    const [head, , ...rows] = lines.map(cellsOf)
    if (head !== undefined) tables.push({ heading, head, rows })
    lines = []
  }
  for (const line of read(page).split('\n')) {
    if (line.startsWith('|')) lines.push(line)
    else {
      end()
      heading = /^#+ (.*)/.exec(line)?.[1]?.replaceAll('`', '') ?? heading
    }
  }
  end()
  return tables
}

const cellsOf = (line: string): string[] =>
  line
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim())

/** Returns the table below a heading whose first column has this title. */
function tableOf(page: string, heading: string, title: string): Table {
  const found = tablesOf(page).find((table) => table.heading === heading && table.head[0] === title)
  if (found === undefined) throw new Error(`${page} has no table ${title} below ${heading}`)
  return found
}

/** Returns every string between backticks. */
const codesOf = (cell: string): string[] =>
  Array.from(cell.matchAll(/`([^`]+)`/g), ([, code]) => code as string)

const columnOf = (table: Table, column: number): string[] => table.rows.map((row) => row[column] as string)

/** Returns a default in the form that pages and docstrings share. */
const plain = (text: string): string =>
  text
    .replaceAll('`', '')
    .replace(/(\d) (?=\d{3})/g, '$1')
    .replace(/ ms$/, '')
    .trim()

describe('programs that show events in the console of dev', () => {
  for (const page of ['README.md', 'docs/reference/dev.md', 'template/app.ts']) {
    const text = read(page)
    const programs = page.endsWith('.ts')
      ? [text]
      : Array.from(text.matchAll(/^```ts.*\n([\s\S]*?)^```$/gm), ([, code = '']) => code)

    it(`the program of ${page} keeps every event, because the console counts the accepted requests`, () => {
      const showing = programs.filter((code) => /KitTelemetry\.create\(\)/.test(code))
      expect(showing).to.have.length.above(0)
      for (const code of showing) expect(code).to.contain('.withSampling({ debugRate: 1, infoRate: 1 })')
    })
  }
})

describe('table of the events of the gate and the router', () => {
  const page = 'docs/guides/mcp-telemetry.md'
  const heading = 'Events of the gate and the router'
  const events = new Map(
    tableOf(page, heading, 'Event').rows.map(([name = '', level = '', error = '', attributes = '']) => [
      plain(name),
      { level: plain(level), error, attributes: codesOf(attributes), message: /\bmessage$/.test(attributes) },
    ]),
  )
  const messageAttributes = tableOf(page, heading, 'Attribute of the message').rows.flatMap(([cell = '']) =>
    codesOf(cell),
  )

  it('the table has every event in the source with its level', () => {
    const emitted = Object.entries(EVENTS).map(([name, { level }]) => `kit.mcp.${name} ${level}`)
    expect(Array.from(events, ([name, { level }]) => `${name} ${level}`)).to.have.members(emitted)
  })

  it('the page names every reason of a refusal', () => {
    const source = /type RefusalReason =(?<union>[^\n]*(?:\n {2}\| '\w+')+)/.exec(
      read('src/oauth/decision.ts'),
    )
    const reasons = [...(source?.groups?.union ?? '').matchAll(/'(\w+)'/g)].map(([, reason]) => reason)
    expect(reasons).to.include.members(['expired', 'rate_limited'])
    const bullet = /^- `reason` is (?:[^\n]|\n {2})*/m.exec(read(page))?.[0] ?? ''
    expect(codesOf(bullet)).to.include.members(reasons)
  })

  it('the table has exactly the attributes of the emitted events', async () => {
    const emitted = new Map<string, TelemetryEnvelope[]>()
    for (const event of await everyEvent())
      emitted.set(event.name, [...(emitted.get(event.name) ?? []), event])
    expect([...emitted.keys()]).to.have.members([...events.keys()])

    const seenOfMessages = new Set<string>()
    for (const [name, { error, attributes, message }] of events) {
      const envelopes = emitted.get(name) ?? []
      const seen = new Set(envelopes.flatMap((envelope) => Object.keys(envelope.attributes ?? {})))
      const [ofMessage, own] = [
        [...seen].filter((key) => messageAttributes.includes(key)),
        [...seen].filter((key) => !messageAttributes.includes(key)),
      ]
      expect(own, name).to.have.members(attributes)
      expect(ofMessage.length > 0, `${name} has attributes of the message`).to.equal(message)
      expect(
        envelopes.some((envelope) => envelope.error !== undefined),
        `${name} has an error`,
      ).to.equal(error === 'yes')
      for (const key of ofMessage) seenOfMessages.add(key)
    }
    expect([...seenOfMessages]).to.have.members(messageAttributes)
  })
})

/** Returns the events of requests of every kind. */
async function everyEvent(): Promise<TelemetryEnvelope[]> {
  const { telemetry, transport: memory } = keepingEvents()
  const fail = (): never => {
    throw new TypeError('x')
  }
  const store = () => ({ consume: async () => fail() })
  const router = KitMcpRouter.create()
    .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }) => text)
    .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
    .tool('crash', { description: 'x' }, fail)
    .tool('denied', { description: 'x' }, () => 'x')
    .tool('refused', { description: 'x' }, () => 'x')
    .tool(
      'limited',
      { description: 'x', limits: { calls: { max: 1, perSeconds: 60, by: 'user' } } },
      () => 'x',
    )
    .tool(
      'uncounted',
      { description: 'x', limits: { calls: { max: 1, perSeconds: 60, by: 'user' }, store } },
      () => 'x',
    )
    .tool('confirmed', { description: 'x', confirm: () => 'x' }, () => 'x')
    .tool('unconfirmed', { description: 'x', confirm: fail }, () => 'x')
    .tool('job', { description: 'x', task: 'required' }, fail)
    .tool('endless', { description: 'x', task: 'required' }, (_args, context) => context.inputRequired({}, 1))
    .tool('waits', { description: 'x', task: 'required' }, (_args, { signal }) => once(signal, 'abort'))
    .prompt('broken', {}, fail)
    .resource('broken', { uri: 'x://broken' }, fail)
  const { verifyToken } = oauth()
  const adapter = createMcpAdapter({
    router,
    telemetry,
    recordPayloads: true,
    sessions: true,
    authorize: ({ name }) => (name === 'refused' ? { deny: 'x' } : name !== 'denied' || fail()),
    oauth: oauth({
      anonymous: true,
      verifyToken: (input) => {
        if (input.bearerToken === 'outage') throw new VerifierUnavailableError('x')
        if (input.bearerToken === 'agent')
          return { valid: true, scopes: ['mcp:read'], act: { sub: 'x', iss: 'y', client_id: 'z' } }
        return input.bearerToken === 'throws' ? fail() : verifyToken(input)
      },
      onVerified: ({ request }) => {
        if (request.headers.has('x-no-hook')) fail()
      },
    }),
  })
  const { send } = web(adapter.server)
  const tasks = new TaskClient({ send }, bearer('reader'))
  const reader = bearer('reader')
  const session = { ...reader, ...(await beginSession({ send }, reader)) }
  for (const action of ['accept', 'decline']) {
    const { requestState } = await tasks.call('confirmed')
    await tasks.call('confirmed', {}, { requestState, inputResponses: { confirm: { action } } })
  }
  await tasks.call('unconfirmed')
  await tasks.run('job')
  await tasks.run('endless')
  await tasks.cancel(await tasks.start('waits'))
  const requests = [
    legacy(call('echo', { text: 'x' }), session),
    legacy(call('echo', { text: 5 }), session),
    legacy(call('write'), session),
    legacy(call('crash'), session),
    legacy(call('denied'), session),
    legacy(call('refused'), session),
    legacy(call('limited'), session),
    legacy(call('limited'), session),
    legacy(call('uncounted'), session),
    legacy(rpc('prompts/get', { name: 'broken' }), session),
    legacy(rpc('resources/read', { uri: 'x://broken' }), session),
    legacy(rpc('nonsense'), session),
    legacy({ ...call('echo'), jsonrpc: '1.0' }, session),
    legacy(call('echo'), { ...session, 'x-no-hook': '1' }),
    legacy(call('echo')),
    legacy(initialization()),
    legacy(call('echo'), bearer('agent')),
    legacy(call('echo'), bearer('throws')),
    legacy(call('echo'), bearer('outage')),
  ]
  for (const request of requests) await send(request)
  const limited = createMcpAdapter({
    router: KitMcpRouter.create(),
    telemetry,
    oauth: oauth({ rateLimit: { points: 1, durationSeconds: 60 }, clientAddress: () => '192.0.2.1' }),
  })
  for (let sent = 0; sent < 3; sent++) await web(limited.server).send(legacy(call('echo')))
  await emitEveryEvent(telemetry)
  await telemetry.shutdown()
  return memory.getEvents()
}

const SKILLS = { 'a/SKILL.md': '---\nname: a\ndescription: b\n---\n' }
const skills = await loadSkills(SKILLS)

describe('tables of options', () => {
  /** Returns the options that the error of `configure` for an unknown option lists. */
  function knownTo(configure: (options: any) => unknown): string[] {
    try {
      configure({ 'no option has such a name, nor one that is near': 1 })
    } catch (error) {
      const known = / Known options: (?<names>[^.]*)\./.exec((error as Error).message)?.groups?.names
      if (known !== undefined) return known.split(', ')
    }
    throw new Error('the error does not list the options')
  }

  const builder = KitTelemetry.create()
  const config = builder.buildConfig()
  for (const [page, heading, configure, defaults] of [
    ['telemetry.md', 'Levels and sampling', (o: object) => builder.withSampling(o), config.sampling],
    ['telemetry.md', 'Validation', (o: object) => builder.withValidation(o), config.validation],
    ['privacy.md', 'What is redacted', (o: object) => builder.withRedaction(o), config.redaction],
  ] as const) {
    it(`the table of ${heading} (${page}) has every option with its default`, () => {
      const table = tableOf(`docs/guides/${page}`, heading, 'Option')
      expect(columnOf(table, 0).flatMap(codesOf)).to.deep.equal(knownTo(configure))
      for (const [option = '', stated = ''] of table.rows) {
        const value = (defaults as unknown as Record<string, unknown>)[plain(option)]
        const none = value === undefined || (Array.isArray(value) && value.length === 0)
        expect(plain(stated), option).to.equal(none ? 'none' : String(value))
      }
    })
  }

  const router = KitMcpRouter.create()
  for (const [page, title, call] of [
    ['limits.md', 'Limit', (limits: object) => createMcpAdapter({ router, limits })],
    ['tasks.md', 'Option of the adapter', (tasks: object) => createMcpAdapter({ router, tasks })],
    ['events.md', 'Option of the adapter', (events: object) => createMcpAdapter({ router, events })],
    ['events.md', 'Option of `event()`', (config: any) => router.event('a', config)],
    ['skills.md', 'Option of `loadSkills`', (options: object) => loadSkills(SKILLS, options)],
    ['skills.md', 'Option of `.skills()`', (config: object) => router.skills(skills, config)],
    ['openapi.md', 'Option', (options: object) => toolsFromOpenApi({}, options)],
    ['stdio.md', 'Option', (options: object) => serveStdio(router, options)],
    ['testing.md', '`createTestIssuer`', testing.createTestIssuer],
    ['testing.md', '`issueToken`', testing.createTestIssuer().issueToken],
  ] as const)
    it(`the table of ${page} whose first column is ${title} has every option`, async () => {
      const table = tablesOf(`docs/guides/${page}`).find(({ head }) => head[0] === title)
      const listed = table === undefined ? [] : columnOf(table, 0).flatMap(codesOf)
      expect(listed.map((code) => /^(?:\w+\.)?(\w+)/.exec(code)?.[1])).to.have.members(
        await optionsOf({ name: page, heading: page, call, good: {} }),
      )
    })

  it('the table of the builder has every method', () => {
    const methods = Object.getOwnPropertyNames(KitTelemetry.prototype).filter(
      (name) => name !== 'constructor',
    )
    const listed = columnOf(tableOf('docs/guides/telemetry.md', 'The builder', 'Method'), 0).map(
      (cell) => /^`(\w+)\(/.exec(cell)?.[1],
    )
    expect(listed).to.have.members(methods)
  })

  it('the tables of statistics have every member of stats()', () => {
    const logger = { debug() {}, info() {}, warn() {}, error() {} }
    const manager = builder.addTransport(LoggerTransportAdapter.create({ logger, minLevel: 'fatal' })).build()
    manager.emit('table.read', { level: 'error' })
    const { transports, ...own } = manager.stats()
    const listed = (title: string) =>
      columnOf(tableOf('docs/guides/telemetry.md', 'Delivery and statistics', title), 0).flatMap(codesOf)
    expect(listed('Of the manager')).to.deep.equal(Object.keys(own))
    expect(listed('Of each transport')).to.deep.equal([...Object.keys(transports[0] ?? {}), 'lastError'])
  })
})

describe('tables of transports', () => {
  const SOURCES: Readonly<Record<string, string>> = {
    LoggerTransportAdapter: 'logger',
    HttpTransportAdapter: 'http/http',
    OtlpTransportAdapter: 'otlp/otlp-options',
    ErrorTrackerTransportAdapter: 'error-tracker',
    TeamChatTransportAdapter: 'chat/adapters',
    CommunityChatTransportAdapter: 'chat/adapters',
    MessengerTransportAdapter: 'chat/adapters',
    StoreStreamTransportAdapter: 'store-stream/store-stream',
    DevConsoleTransportAdapter: 'dev-console',
  }
  const WORKING: Readonly<Record<string, object>> = {
    LoggerTransportAdapter: { logger: console },
    ErrorTrackerTransportAdapter: { sdk: { captureException: () => undefined } },
    StoreStreamTransportAdapter: { store: { xadd: () => undefined } },
    MessengerTransportAdapter: { botToken: '1:x', chatId: '1' },
    HttpTransportAdapter: { url: 'http://localhost' },
    OtlpTransportAdapter: { url: 'http://localhost' },
    TeamChatTransportAdapter: { webhookUrl: 'http://localhost' },
    CommunityChatTransportAdapter: { webhookUrl: 'http://localhost' },
  }
  const exported = Object.entries(kit).filter(([name]) =>
    /^\w+(?:Transport|Telemetry)Adapter$/.test(name),
  ) as unknown as [string, { readonly name: string; create(options?: object): TelemetryTransport }][]
  const adapters = exported.filter(([name, adapter]) => name === adapter.name)
  const furtherNames = exported.filter(([name, adapter]) => name !== adapter.name)

  it('the page has a section for each adapter with its type', () => {
    expect(adapters).to.have.length(11)
    for (const [name, { create }] of adapters) {
      const { type } = create(WORKING[name])
      expect(read('docs/reference/transports.md')).to.contain(`\n## \`${name}\`\n\nType \`${type}\`. `)
    }
  })

  it('the section of each adapter has its further name', () => {
    expect(furtherNames).to.have.length(5)
    for (const [furtherName, { name, create }] of furtherNames) {
      const { type } = create(WORKING[name])
      expect(read('docs/reference/transports.md')).to.contain(
        `\n## \`${name}\`\n\nType \`${type}\`. Also exported as \`${furtherName}\`. `,
      )
    }
  })

  /**
   * Every option of the interfaces in a source, with the default in its docstring. It is undefined if there is none, and
   * null for "Defaults to" and a description, which the table may state in other words.
   */
  function documentedIn(source: string, adapter: string): Map<string, string | null | undefined> {
    const own = read(`src/telemetry/transports/${source}.ts`)
    const name = adapter.replace(/Adapter$/, 'Options')
    // The chats share a file, and the options of `ChatOptions`.
    const text = source.startsWith('chat/')
      ? read('src/telemetry/transports/chat/chat.ts') +
        own.slice(own.indexOf(`interface ${name} `)).split('\n}')[0]
      : own
    const members = text.matchAll(/\/\*\*(?<doc>(?:(?!\*\/)[\s\S])*)\*\/\s*readonly (?<name>\w+)\??:/g)
    return new Map(
      Array.from(members, ({ groups }) => {
        const doc = (groups?.doc ?? '').replace(/\s*\n\s*\* ?/g, ' ')
        const stated = /(?:Default:?|Defaults to) (`[^`]+`|\d[\d ]*)|Default:? ([^.]+)/.exec(doc)
        const value = stated?.[1] ?? stated?.[2]
        if (value === undefined) return [groups?.name ?? '', / Defaults to /.test(doc) ? null : undefined]
        return [groups?.name ?? '', plain(value)]
      }),
    )
  }

  for (const [adapter, source] of Object.entries(SOURCES)) {
    const [page, heading] =
      source === 'otlp/otlp-options'
        ? ['docs/reference/otlp.md', 'Options']
        : ['docs/reference/transports.md', adapter]
    it(`the table of ${adapter} in ${page} has every option with its default`, () => {
      const table = tableOf(page, heading, 'Option')
      const { create } = adapters.find(([name]) => name === adapter)?.[1] ?? expect.fail()
      let message = ''
      try {
        create({ 'no option has such a name, nor one that is near': 1 })
      } catch (error) {
        message = (error as Error).message
      }
      const known = / Known options: ([^.]*)\./.exec(message)?.[1]?.split(', ')
      expect(columnOf(table, 0).flatMap(codesOf)).to.have.members(known ?? [])
      const documented = documentedIn(source, adapter)
      for (const [option = '', stated = ''] of table.rows) {
        const inCode = documented.get(plain(option))
        if (inCode === null) expect(stated, option).not.to.be.oneOf(['needed', ''])
        else if (inCode === undefined) expect(stated, option).to.be.oneOf(['needed', 'none', ''])
        else expect(plain(stated), option).to.equal(inCode)
      }
    })
  }
})

describe('docs/guides/testing.md', () => {
  it('the table has every member of the recorder', () => {
    const { rows } = tableOf('docs/guides/testing.md', 'Events', 'Member')
    const { type: _type, handle: _handle, ...recorder } = testing.createTelemetryRecorder()
    expect(rows.map(([cell = '']) => /^`(\w+)/.exec(cell)?.[1])).to.have.members(Object.keys(recorder))
  })

  it('the whole test equals examples/testing/greeter.test.ts', () => {
    const block = /^```ts\n([\s\S]*?)^```$/m.exec(read('docs/guides/testing.md'))?.[1]
    expect(block).to.equal(read('examples/testing/greeter.test.ts'))
  })
})

describe('table of names in docs/guides/migrate-from-igniter.md', () => {
  it('every new name exists', () => {
    const types = read('test/api-report/telemetry.api.md')
    const { rows } = tableOf('docs/guides/migrate-from-igniter.md', 'Names', '`@igniter-js/telemetry`')
    expect(rows).to.have.length.above(20)
    for (const [, now = ''] of rows)
      for (const name of codesOf(now)) expect(types, name).to.match(new RegExp(`\\b${name}\\b`))
  })
})

describe('figures in docs/comparison.md', () => {
  const cost = /([\d.]+) µs/g

  it('every figure is in docs/reference/benchmarks.md', () => {
    const measured = tablesOf('docs/reference/benchmarks.md')
    const rows = tablesOf('docs/comparison.md').flatMap(({ rows }) =>
      rows.filter((row) => row.some((cell) => /\d µs/.test(cell))),
    )
    expect(rows).to.have.length(3)
    for (const [title = '', ...cells] of rows) {
      const anchor = /benchmarks\.md#([^)]+)/.exec(title)?.[1]
      const known = measured
        .filter(
          ({ heading }) =>
            anchor ===
            heading
              .toLowerCase()
              .replace(/[^\w\s-]/g, '')
              .replaceAll(' ', '-'),
        )
        .flatMap(({ rows }) => rows.flat())
      const figures = cells.flatMap((cell) => Array.from(cell.matchAll(cost), ([, figure]) => figure))
      expect(known, title).to.include.members(figures)
    }
  })
})
