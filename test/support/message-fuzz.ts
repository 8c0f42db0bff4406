import fc from 'fast-check'
import { z } from 'zod'
import { KitMcpRouter, KitToolError } from '../../src/index.ts'

const MODERN = '2026-07-28'

/** A router with operations of every kind, so that random requests reach all of them. */
export const fuzzRouter: KitMcpRouter = KitMcpRouter.create()
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('any', { description: 'x', input: z.looseObject({}) }, (args) => args)
  .tool(
    'sum',
    { description: 'x', input: z.object({ a: z.number() }), output: z.object({ sum: z.number() }) },
    ({ a }) => ({
      sum: a + 1,
    }),
  )
  .tool('refuse', { description: 'x' }, () => {
    throw new KitToolError('no')
  })
  .tool('break', { description: 'x' }, () => {
    throw new Error('a secret')
  })
  .tool('nonsense', { description: 'x' }, () => ({ content: [], _meta: { n: 1n } }) as never)
  .tool('progress', { description: 'x' }, async (_args, { progress, log }) => {
    await progress(1, 2)
    await log('warning', { half: true })
    return 'done'
  })
  .tool(
    'query',
    { description: 'x', input: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }) },
    ({ region }) => region,
  )
  .prompt('hello', { input: z.object({ who: z.string() }) }, ({ who }) => `Hello ${who}`)
  .resource('one', { uri: 'x://one' }, () => ({ n: 1 }))
  .resourceTemplate(
    'more',
    { uriTemplate: 'y://{id}', complete: { id: (text) => [`${text}!`] } },
    (_uri, { id }) => `${id}`,
  )

/** Valid parameters by method. */
const PARAMS: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
  'tools/call': [
    'echo',
    'any',
    'sum',
    'refuse',
    'break',
    'nonsense',
    'progress',
    'query',
    'none',
    '__proto__',
  ].map((name) => ({ name, arguments: { text: 'x', a: 1, region: 'eu' } })),
  'tools/list': [{}],
  'prompts/get': [{ name: 'hello', arguments: { who: 'x' } }],
  'prompts/list': [{}],
  'resources/read': [{ uri: 'x://one' }, { uri: 'y://2' }, { uri: 'no uri' }],
  'resources/list': [{}],
  'resources/templates/list': [{}],
  'resources/subscribe': [{ uri: 'x://one' }],
  'completion/complete': [
    { ref: { type: 'ref/resource', uri: 'y://{id}' }, argument: { name: 'id', value: 'a' } },
  ],
  initialize: [{ protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } }],
  ping: [{}],
  'logging/setLevel': [{ level: 'info' }],
  'server/discover': [{}],
  'no/method': [{}],
  'notifications/initialized': [{}],
  'notifications/cancelled': [{ requestId: 1 }],
  'notifications/progress': [{ progressToken: 1, progress: 1 }],
}

const METHODS = Object.keys(PARAMS)

const levels = (open: string, close: string, count: number): string =>
  open.repeat(count) + close.repeat(count)

/** JSON values, serialized. Some of them are hard for parsers. */
const value: fc.Arbitrary<string> = fc.oneof(
  fc.jsonValue().map((one) => JSON.stringify(one)),
  fc.constantFrom(
    ...[
      'null',
      'true',
      '-0',
      '1.5',
      '1e400',
      '-1e-400',
      '12345678901234567890',
      '9007199254740993',
      '1',
      '"1"',
    ],
    ...[
      '""',
      '[]',
      '{}',
      '[[]]',
      '"\\ud800"',
      '"\\udfff\\ud800"',
      '"\\u0000"',
      '"\\u2028"',
      `"${'x'.repeat(5000)}"`,
    ],
    ...['{"__proto__":{"isError":true}}', '{"constructor":{"prototype":1}}', '{"then":1}', '{"toJSON":"x"}'],
    ...['"__proto__"', '"constructor"', `"${MODERN}"`, '"2025-11-25"', '{"progressToken":1}', '{"_meta":{}}'],
    levels('[', ']', 10_000),
    `${levels('{"a":', '}', 10_000).replace(':}', ':1}')}`,
  ),
)

/** The members of an object in order, serialized. A member can appear twice. */
type Members = readonly (readonly [name: string, text: string])[]

const textOf = (members: Members): string =>
  `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`

const name = fc.oneof(
  fc.constantFrom(
    'id',
    'method',
    'params',
    'jsonrpc',
    'result',
    'error',
    '_meta',
    '__proto__',
    'name',
    'uri',
    'arguments',
  ),
  fc.string(),
)

/** `members` with a few random errors. */
function mutated(members: Members): fc.Arbitrary<Members> {
  const change = fc.oneof(
    fc.record({ kind: fc.constant('drop' as const), at: fc.nat() }),
    fc.record({ kind: fc.constant('repeat' as const), at: fc.nat() }),
    fc.record({ kind: fc.constant('replace' as const), at: fc.nat(), text: value }),
    fc.record({ kind: fc.constant('again' as const), at: fc.nat(), text: value }),
    fc.record({ kind: fc.constant('add' as const), name, text: value }),
  )
  return fc.array(change, { maxLength: 2 }).map((changes) => {
    const result = [...members]
    for (const one of changes) {
      if (one.kind === 'add') result.push([one.name, one.text])
      if (one.kind === 'add' || result.length === 0) continue
      const at = one.at % result.length
      const [known, text] = result[at] as readonly [string, string]
      if (one.kind === 'drop') result.splice(at, 1)
      else if (one.kind === 'repeat') result.push([known, text])
      else if (one.kind === 'again') result.push([known, one.text])
      else result[at] = [known, one.text]
    }
    return result
  })
}

const membersOf = (object: object): Members =>
  Object.entries(object).map(([key, one]) => [key, JSON.stringify(one)] as const)

interface Known {
  readonly method: string
  readonly params: Record<string, unknown>
}

const known: fc.Arbitrary<Known> = fc
  .constantFrom(...METHODS)
  .chain((method) => fc.constantFrom(...(PARAMS[method] ?? [])).map((params) => ({ method, params })))

/** Generates valid input in three of four cases. */
const mostly = <T>(right: fc.Arbitrary<T>, wrong: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 3, arbitrary: right }, { weight: 1, arbitrary: wrong })

/** One serialized message, valid or nearly valid. */
function message({ method, params }: Known, modern: boolean, id: string): fc.Arbitrary<string> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'fuzz', version: '1' },
    progressToken: 7,
  }
  const envelope = modern
    ? mostly(fc.constant(membersOf(meta)), mutated(membersOf(meta))).map(textOf)
    : fc.constantFrom('{"progressToken":7}', '{}')
  const own = membersOf(params)
  return envelope.chain((text) => {
    const all: Members = [...own, ['_meta', text]]
    return mostly(fc.constant(all), mutated(all)).chain((some) => {
      const whole: Members = [
        ['jsonrpc', '"2.0"'],
        ...(method.startsWith('notifications/') ? [] : [['id', id] as const]),
        ['method', JSON.stringify(method)],
        ['params', textOf(some)],
      ]
      return mostly(fc.constant(whole), mutated(whole)).map(textOf)
    })
  })
}

/** A random request: its body, and headers that do or do not match the body. */
export interface FuzzedRequest {
  readonly body: string | Buffer
  readonly headers: Record<string, string | undefined>
}

const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', MODERN] as const

const strange = fc.constantFrom(
  undefined,
  '',
  'zzz',
  '2024-11-05',
  '2099-01-01',
  `${MODERN}, ${MODERN}`,
  ` ${MODERN} `,
)

const nameHeader = fc.constantFrom(
  ...[
    undefined,
    '',
    'echo',
    ' echo ',
    'echo, echo',
    '__proto__',
    'x://one',
    '=?base64?ZWNobw==?=',
    '=?base64?%?=',
    '=?',
  ],
)

const text: fc.Arbitrary<string> = fc.oneof(
  fc.jsonValue().map((one) => JSON.stringify(one)),
  value,
  fc.string(),
  fc.constantFrom(
    '',
    ' ',
    '\ufeff{}',
    '[',
    '{"jsonrpc":"2.0"',
    '[[],[]]',
    '[null]',
    levels('[', ']', 100_000),
  ),
)

const bytes: fc.Arbitrary<Buffer> = fc.uint8Array({ maxLength: 40 }).map((some) => Buffer.from(some))

const one: fc.Arbitrary<FuzzedRequest> = fc
  .tuple(known, fc.boolean(), mostly(fc.constant('1'), value))
  .chain(([asked, modern, id]) => {
    const mirrored = asked.params.name ?? asked.params.uri
    const said = typeof mirrored === 'string' ? mirrored : undefined
    return fc.record({
      body: message(asked, modern, id),
      headers: fc.record({
        'content-type': mostly(
          fc.constant('application/json'),
          fc.constantFrom(undefined, 'application/json; charset=utf-8', 'text/plain', 'application/jsonx'),
        ),
        accept: mostly(
          fc.constant('application/json, text/event-stream'),
          fc.constantFrom(undefined, '*/*', 'application/json', 'text/event-stream', 'text/html, */*;q=0.1'),
        ),
        'mcp-protocol-version': mostly(
          modern
            ? fc.constant(MODERN as string | undefined)
            : fc.constantFrom(undefined, ...REVISIONS.slice(0, 3)),
          strange,
        ),
        'mcp-method': mostly(
          fc.constant(modern ? asked.method : undefined),
          fc.constantFrom(undefined, '', 'tools/call', 'TOOLS/CALL', ` ${asked.method} `),
        ),
        'mcp-name': mostly(fc.constant(modern ? said : undefined), nameHeader),
        'mcp-param-region': fc.constantFrom(undefined, 'eu', 'us', '=?base64?ZXU=?='),
      }),
    })
  })

const batch: fc.Arbitrary<FuzzedRequest> = fc
  .array(fc.tuple(known, fc.boolean(), value), { minLength: 1, maxLength: 6 })
  .chain((some) =>
    fc.tuple(
      ...some.map(([asked, modern, id], index) =>
        mostly(fc.constant(String(index)), fc.constantFrom(id, '0', '"0"')).chain((given) =>
          message(asked, modern && index % 3 === 2, given),
        ),
      ),
    ),
  )
  .chain((messages) =>
    fc.record({
      body: fc.constant(`[${messages.join(',')}]`),
      headers: fc.record({
        'content-type': fc.constant('application/json'),
        accept: fc.constant('application/json, text/event-stream'),
        'mcp-protocol-version': mostly(
          fc.constantFrom(undefined, '2025-03-26'),
          fc.constantFrom(...REVISIONS, 'zzz'),
        ),
      }),
    }),
  )

const garbage: fc.Arbitrary<FuzzedRequest> = fc.record({
  body: fc.oneof(text, bytes),
  headers: fc.record({
    'content-type': fc.constant('application/json'),
    accept: fc.constant('application/json, text/event-stream'),
    'mcp-protocol-version': fc.constantFrom(undefined, ...REVISIONS),
    'mcp-method': fc.constantFrom(undefined, 'tools/call'),
  }),
})

export const fuzzedRequests: fc.Arbitrary<FuzzedRequest> = fc.oneof(
  { weight: 6, arbitrary: one },
  { weight: 2, arbitrary: batch },
  { weight: 1, arbitrary: garbage },
)
