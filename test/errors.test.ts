import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import { anchorOf, readErrorReference } from '../cli/explain/error-reference.ts'
import * as kit from '../src/index.ts'
import { toolsFromOpenApi } from '../src/openapi/index.ts'
import { knownTo, readPage, requirementOf, withOptionLists, wrongValuesOf } from './support/option-lists.ts'
import { ARGUMENTS, type OptionsTaker, TAKERS } from './support/option-takers.ts'
import { runs } from './support/runs.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Returns the anchors of the headings of a page, as GitHub creates them. */
function anchorsIn(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8').replace(/^```[\s\S]*?^```$/gm, '')
  return Array.from(text.matchAll(/^#+ (.+)$/gm), ([, heading = '']) => anchorOf(heading))
}

const headings = anchorsIn('docs/reference/errors.md')

/** Returns the TypeScript files of some folders, with their paths. */
function sourcesIn(...folders: string[]): [path: string, text: string][] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name): [string, string] => [`${folder}/${name}`, readFileSync(join(root, folder, name), 'utf8')]),
  )
}

/** Returns the first group of each match in some texts, without duplicates. */
function groupsIn(texts: readonly (readonly [path: string, text: string])[], pattern: RegExp): string[] {
  return [
    ...new Set(texts.flatMap(([, text]) => Array.from(text.matchAll(pattern), ([, group = '']) => group))),
  ]
}

type ConfigError = kit.KitMcpConfigError | kit.KitTelemetryError

/** Returns the error that a call throws or rejects with, if any. */
async function failureOf(call: () => unknown): Promise<ConfigError | undefined> {
  try {
    await call()
    return undefined
  } catch (error) {
    const ours = error instanceof kit.KitMcpConfigError || kit.KitTelemetryError.is(error)
    if (!ours) throw error
    return error
  }
}

async function refusalOf(call: () => unknown): Promise<ConfigError> {
  const error = await failureOf(call)
  if (error === undefined) throw new Error('the call did not fail')
  return error
}

/** Returns every form of an error that a log could contain. */
function textsOf(error: ConfigError): string {
  return [error.message, error.stack, inspect(error, { depth: 9 }), JSON.stringify(error)].join('\n')
}

/** Expects that the error names its heading, in its message and in `docs`. */
function expectLink(error: ConfigError, heading: string): void {
  expect(error.docs).to.equal(`docs/reference/errors.md#${heading}`)
  expect(
    error.message.endsWith(` Run "npx mcp-gatekit explain ${heading}" for help.`),
    error.message,
  ).to.equal(true)
  expect(headings, 'headings of docs/reference/errors.md').to.include(heading)
}

/** Counts insertions, deletions, replacements, and swaps of neighbors (optimal string alignment). */
function editsBetween(one: string, other: string): number {
  const rows = Array.from({ length: one.length + 1 }, (_, i) =>
    Array.from({ length: other.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)),
  )
  const at = (i: number, j: number) => rows[i]?.[j] as number
  for (let i = 1; i <= one.length; i++) {
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1
      let edits = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + same)
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        edits = Math.min(edits, at(i - 2, j - 2) + 1)
      ;(rows[i] as number[])[j] = edits
    }
  }
  return at(one.length, other.length)
}

/** Returns `name` with one letter removed, added, or swapped with the next. */
function misspelled(name: string, kind: 'drop' | 'add' | 'swap', index: number, letter: string): string {
  const at = index % name.length
  if (kind === 'drop') return name.slice(0, at) + name.slice(at + 1)
  if (kind === 'add') return name.slice(0, at) + letter + name.slice(at)
  const from = index % (name.length - 1)
  return name.slice(0, from) + name.charAt(from + 1) + name.charAt(from) + name.slice(from + 2)
}

/** Forms in which a message names the received value: a description, a combination, a part, or a missing value. */
const NAMES_RECEIVED_VALUE = new RegExp(
  [
    '; received ',
    ' is missing\\. ',
    ' cannot be given together | cannot be used together | can be used only | without a secret',
    ' must not | must have no | must begin | has a name that ',
    ", not '| names '| has '| has no variable",
  ].join('|'),
)

const INVALID = /^(?:MCP_CONFIG_INVALID_OPTION|TELEMETRY_CONFIGURATION_INVALID)$/
const INVALID_OR_MISSING = /^(?:MCP_CONFIG_(?:INVALID|MISSING)_OPTION|TELEMETRY_CONFIGURATION_INVALID)$/

/** Returns `true` for values that some options treat as missing, and for objects, in which a member can be missing. */
function canBeMissing(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === undefined || value === '' || typeof value === 'object'
}

/** A secret that is longer than the strings that a message repeats. It is not in the origin of a URL. */
const SECRET = 'S3cr3t-never-to-be-shown-0123456789-abcdef'

/** Invalid values that contain the secret. */
const WITH_SECRET: readonly unknown[] = [
  SECRET,
  [SECRET],
  { value: SECRET },
  `https://ada:${SECRET}@example.com/${SECRET}?key=${SECRET}#${SECRET}`,
  `http://example.com/${SECRET}`,
  [`http://example.com/${SECRET}`],
  `${SECRET}\u0000`,
  [`${SECRET} ${SECRET}`],
  Buffer.from(SECRET),
  new Map([[SECRET, SECRET]]),
  Symbol(SECRET),
]

/** Options that are secrets: messages do not even repeat short values. */
const SECRET_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  mcpAuth: ['signedMetadata'],
  'dpop.nonce': ['secret'],
  jwtVerifier: ['secret', 'publicKey'],
  introspectionVerifier: ['clientSecret'],
  createMcpAdapter: ['requestStateSecret'],
  toolsFromOpenApi: ['headers'],
  upstreamToken: ['clientSecret'],
  authorizationFacade: ['keys'],
  oidc: ['clientSecret'],
  entra: ['clientSecret'],
  google: ['clientSecret'],
  github: ['clientSecret'],
  cognito: ['clientSecret'],
  withRedaction: ['hashSecret'],
  withAudit: ['secret'],
  'HttpTransportAdapter.create': ['url', 'headers'],
  'OtlpTransportAdapter.create': ['url', 'headers'],
  'TeamChatTransportAdapter.create': ['webhookUrl'],
  'CommunityChatTransportAdapter.create': ['webhookUrl', 'avatarUrl'],
  'MessengerTransportAdapter.create': ['botToken'],
}

describe('configuration error', () => {
  for (const taker of TAKERS) {
    const { name, heading, call, good, wrong = {}, elsewhere = {} } = taker

    describe(`of ${name}`, () => {
      it(`an invalid option of ${name} is named with the expected and the received value`, async () => {
        expect(await failureOf(() => call(good))).to.equal(undefined)
        const known = await knownTo(taker)
        expect(known).to.include.members(Object.keys(wrong))
        for (const option of known) {
          const { takes, isNeeded } = await requirementOf(taker, option)
          const ofKind = isNeeded ? [undefined, ...wrongValuesOf(takes)] : wrongValuesOf(takes)
          const values = [...ofKind, ...(wrong[option] ?? [])]
          expect(values, `wrong values of ${option}`).to.not.have.length(0)
          for (const value of values) {
            const error = await refusalOf(() => call({ ...good, [option]: value })).catch((reason) => {
              throw new Error(`${option}: ${inspect(value)}: ${reason}`)
            })
            expect(error.code, `${option}: ${inspect(value)}`).to.match(
              canBeMissing(value) ? INVALID_OR_MISSING : INVALID,
            )
            expect(error.message).to.match(new RegExp(`\\b${elsewhere[option] ?? option}\\b`))
            expect(error.message, option).to.match(NAMES_RECEIVED_VALUE)
            if ([value].flat().every((one) => typeof one === 'string'))
              expect(error.message, option).to.not.contain('received undefined')
            // An error must not recommend an option that the function does not have.
            if (!known.includes('allowInsecureHttp'))
              expect(error.message).to.not.contain('allowInsecureHttp')
            const own = heading === 'oauth' || elsewhere[option] === 'oauth'
            const anchor = !own ? heading : option === 'oauth' ? 'oauth' : `oauth-${option.toLowerCase()}`
            expectLink(error, anchor)
          }
        }
      })

      it(`a value of ${name} that is not an object of options is rejected`, async () => {
        // Only `dpop` can be a string, and `none of these` is not one of its modes.
        for (const value of ['none of these', 5, null, [], new Map()]) {
          const error = await refusalOf(() => call(value))
          expect(error.code).to.match(INVALID)
          expect(error.message).to.match(NAMES_RECEIVED_VALUE)
        }
      })

      it(`null is not a value of any option of ${name}`, async () => {
        const known = await knownTo(taker)
        for (const option of known)
          expect(await failureOf(() => call({ ...good, [option]: null })), option).to.not.equal(undefined)
      })

      it(`an error of ${name} does not contain the received secret`, async () => {
        for (const option of await knownTo(taker)) {
          for (const value of WITH_SECRET) {
            const error = await failureOf(() => call({ ...good, [option]: value }))
            if (error !== undefined) expect(textsOf(error), option).not.to.include(SECRET)
          }
        }
        for (const option of SECRET_OPTIONS[name] ?? []) {
          for (const value of ['S3cr3t', 'https://ada:S3cr3t@x.test', { a: 'S3cr3t\n' }]) {
            const error = await failureOf(() => call({ ...good, [option]: value }))
            if (error !== undefined) expect(textsOf(error), option).not.to.include('S3cr3t')
          }
        }
        // Only `dpop` can be a string, and only one of three words.
        const inPlaceOfAll = name === 'dpop' ? [SECRET] : [SECRET, 'S3cr3t']
        for (const value of inPlaceOfAll) {
          const error = await failureOf(() => call(value))
          if (error !== undefined) expect(textsOf(error)).not.to.match(/S3cr3t/)
        }
      })

      it(`a misspelled option of ${name} leads to a suggestion`, async () => {
        const known = await knownTo(taker)
        const spelling = fc.record({
          option: fc.constantFrom(...known),
          kind: fc.constantFrom('drop', 'add', 'swap'),
          index: fc.nat(40),
          letter: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyzXYZ_'),
        })
        await fc.assert(
          fc.asyncProperty(spelling, async ({ option, kind, index, letter }) => {
            const given = misspelled(option, kind, index, letter)
            fc.pre(!known.includes(given))
            const error = await refusalOf(() => call({ ...good, [given]: 1 }))
            expect(error.code).to.match(/^(?:MCP_CONFIG_UNKNOWN_OPTION|TELEMETRY_CONFIGURATION_INVALID)$/)
            const [, meant = ''] = /Did you mean '(\w+)'/.exec(error.message) ?? []
            expect(known).to.include(meant)
            // If two options are equally similar, either is a good suggestion.
            const edits = editsBetween(given.toLowerCase(), meant.toLowerCase())
            if (meant !== option) expect(edits).to.be.at.most(1)
            expectLink(error, heading)
          }),
          { numRuns: runs(100) },
        )
      })
    })
  }

  for (const [heading, rows] of Object.entries(ARGUMENTS))
    for (const [what, names, call] of rows)
      it(`an invalid argument is named: ${what}`, async () => {
        const error = await refusalOf(call)
        expect(error.message).to.match(names)
        expectLink(error, heading)
      })

  it('every anchor that a message can print has a heading, and explain finds it', async () => {
    const [sources, telemetry] = [sourcesIn('src', 'cli'), sourcesIn('src/telemetry')]
    const [oauth] = TAKERS.filter(({ heading }) => heading === 'oauth')
    const codes = [
      ...Object.keys(kit.KIT_TELEMETRY_ERROR_CODES),
      ...groupsIn(sourcesIn('src/base/options'), /\| '(MCP_CONFIG_\w+)'/g),
    ]
    const options = groupsIn(sources, /optionChecksOf\('([\w.]+)'\)/g)
    const calls = groupsIn(
      telemetry,
      /(?:copy\w*Options(?:<\w+>)?\(\s*'|(?:check\w+|invalid\w+|text)\(\s*['`](?:the argument of )?)([a-z][a-zA-Z.]*)(?:\(|'[,)])/g,
    )
    const anchors = [
      ...codes,
      ...options,
      ...groupsIn(sources, /\banchor: '([^']+)'/g),
      ...(await knownTo(oauth as OptionsTaker)).map((option) => `oauth-${option}`),
      ...calls.map((call) => call.replaceAll('.', '')),
    ].map((anchor) => anchor.toLowerCase())
    expect(codes).to.have.length(24)
    expect(options).to.have.length.above(15)
    expect(calls).to.include.members([
      'withVersion',
      'withLogger',
      'addEvents',
      'addTransport',
      'event',
      'group',
    ])
    const reference = readErrorReference()
    for (const anchor of anchors) {
      expect(headings, 'headings of docs/reference/errors.md').to.include(anchor)
      expect(reference.find(anchor)?.body, `help for ${anchor}`).to.match(/\w/)
    }
  })

  it('every page and heading that the code names exists', () => {
    const named = sourcesIn('src', 'cli', 'template', 'examples').flatMap(([path, text]) =>
      Array.from(text.matchAll(/\bdocs\/[\w/-]+\.md(?:#[\w-]+)?/g), ([target]) => ({ path, target })),
    )
    expect(named).to.have.length.above(50)
    const missing = named.filter(({ target }) => {
      const [page = '', anchor] = target.split('#')
      if (!existsSync(join(root, page))) return true
      return anchor !== undefined && !anchorsIn(page).includes(anchor)
    })
    expect(missing).to.deep.equal([])
  })

  it('the lists of options on the errors page state what the messages state', async () => {
    expect(await withOptionLists(readPage()), 'run npm run options').to.equal(readPage())
  })

  it('every heading of the errors page has its own anchor', () => {
    expect(headings.filter((heading, index) => headings.indexOf(heading) !== index)).to.deep.equal([])
  })

  it('an error about an unreadable OpenAPI document does not quote the document', async () => {
    for (const text of [`{"key": S3cr3t}`, `{"key": "${SECRET}`, `key: [S3cr3t`, `key: S3cr3t: x`, SECRET]) {
      const error = await refusalOf(() => toolsFromOpenApi(text, { app: () => {} }))
      expect(textsOf(error), text)
        .to.match(/document (?:is no|must be)/)
        .and.not.include('S3cr3t')
    }
  })

  it('an unknown option with a long name is cut and shown without control characters', async () => {
    const error = await refusalOf(() => kit.mcpAuth({ [`a\n\u202e${'b'.repeat(500)}`]: 1 } as never))
    expect(error.message).to.match(/^oauth has no option 'a\\u\{a\}\\u\{202e\}b{30,60}…'\. Known options: /)
  })
})
