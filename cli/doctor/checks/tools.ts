import querystring from 'node:querystring'
import { counted } from '../../../src/base/options/counted.ts'
import { isRecord } from '../../../src/base/options/value-kinds.ts'
import { tryOrUndefined } from '../../../src/base/try-or-undefined.ts'
import { type CheckFunctions, clientProblem, type Examination, observation } from '../examination.ts'
import { type Finding, fail, InconclusiveError, ok, onlyIf, warn, worst } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { entriesOf, memberOf } from '../values.ts'
import { isGuarded } from './protection.ts'
import { conversation } from './protocol.ts'

const TYPES: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isRecord(value)

/** The values that keywords can have. Clients cannot compile a schema with other ones. */
const RULES: readonly (readonly [
  keywords: RegExp,
  kind: string,
  isRight: (value: unknown, root: unknown) => boolean,
])[] = [
  [/^(?:\$ref|pattern|format)$/, 'a string', (value) => typeof value === 'string'],
  [/^(?:multipleOf|exclusiveM..imum|m..(?:imum|Length|Items|Properties))$/, 'a number', Number.isFinite],
  [/^(?:required|allOf|anyOf|oneOf)$/, 'an array', Array.isArray],
  [/^(?:additionalProperties|not|if|then|else|contains|propertyNames)$/, 'a schema', isSchema],
  [/^enum$/, 'an array with a value', (value) => Array.isArray(value) && value.length > 0],
  [/^(?:properties|patternProperties)$/, 'an object', isRecord],
  [/^type$/, 'a JSON type', (value) => [value].flat().every((type) => TYPES.includes(type))],
  [/^\$ref$/, 'a part of the schema', (value, root) => targetOf(root, value as string) !== undefined],
  [/^pattern$/, 'a regular expression with the flag u', isPattern],
  [/^patternProperties$/, 'patterns with the flag u', (value) => Object.keys(Object(value)).every(isPattern)],
]

/** The keywords that contain a schema or a list of schemas. */
const SCHEMAS =
  /^(?:items|prefixItems|allOf|anyOf|oneOf|additionalProperties|not|if|then|else|contains|propertyNames)$/

/** The keywords that contain schemas by name. */
const MAPS = /^(?:properties|patternProperties|dependentSchemas)$/

/**
 * Returns the reasons why clients cannot compile a JSON Schema, each with the keyword and its place: values of another kind,
 * unknown types, patterns that are not regular expressions with the flag `u`, and references without a target. Ignores
 * definitions to which no reference leads.
 */
export function schemaProblems(root: unknown): readonly string[] {
  const problems: string[] = []
  const waiting: (readonly [schema: unknown, at: string])[] = [[root, '#']]
  const seen = new Set<unknown>()
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [schema, at] = next
    // References in a part with a name of its own are relative to that part.
    if (!isRecord(schema) || seen.has(schema) || (schema !== root && schema.$id !== undefined)) continue
    seen.add(schema)
    for (const [keyword, value] of Object.entries(schema)) {
      const broken = RULES.find(([keywords, , isRight]) => keywords.test(keyword) && !isRight(value, root))
      if (broken !== undefined)
        problems.push(`${keyword} at ${at} is ${quoteValue(value)}, expected ${broken[1]}`)
      else if (keyword === '$ref') waiting.push([targetOf(root, value as string), value as string])
      else if (SCHEMAS.test(keyword))
        for (const one of [value].flat()) waiting.push([one, `${at}/${keyword}`])
      else if (MAPS.test(keyword))
        for (const [name, one] of Object.entries(Object(value)))
          waiting.push([one, `${at}/${keyword}/${name}`])
    }
  }
  return problems
}

function isPattern(pattern: unknown): boolean {
  return tryOrUndefined(() => new RegExp(pattern as string, 'u')) !== undefined
}

/** Returns the target of a reference, `undefined` if there is none, or `true` if it is not a path in the schema. */
function targetOf(root: unknown, ref: string): unknown {
  if (ref === '#') return root
  // Only definitions can have names. The schemas of JSON Schema itself are known.
  const isNamed = ['$defs', 'definitions'].some((name) => memberOf(root, name) !== undefined)
  if (!ref.startsWith('#/')) return isNamed || /^https?:\/\/json-schema\.org\//.test(ref) || undefined
  const parts = querystring.unescape(ref.slice(2)).split('/')
  return parts.reduce((at, part) => memberOf(at, part.replaceAll('~1', '/').replaceAll('~0', '~')), root)
}

export const SEE_LOG = 'check the log of the server'

/** The response to `tools/list`. */
const toolsResponse = observation(
  async (examination) => await (await conversation(examination)).request('tools/list'),
)

/** The response to the call of `--call`, which is sent once. @throws {InconclusiveError} without `--call` */
const callResponse = observation(async (examination) => {
  const { call: name, callArguments } = examination.options
  onlyIf(name !== undefined, 'only with --call')
  return await (await conversation(examination)).request('tools/call', { name, arguments: callArguments })
})

/** Returns a remark if a list has more pages. */
export function pageOf(response: HttpExchange): string {
  return response.result('nextCursor') === undefined ? '' : ' on the first page'
}

/** Returns the values that occur before in the list. */
export function repeated(values: readonly unknown[]): readonly unknown[] {
  const known = new Set<unknown>()
  return values.filter((value) => known.size === known.add(value).size)
}

/** Returns the first problem of a list of tools, or `undefined`. */
export function checkTools(tools: readonly unknown[], seen: string): Finding | undefined {
  const names = tools.map((tool) => memberOf(tool, 'name'))
  const broken = tools.filter((tool) => memberOf(tool, 'inputSchema', 'type') !== 'object')
  if (!names.every((name) => typeof name === 'string' && name !== '') || broken.length > 0)
    return fail(
      `${seen}; without a name or an inputSchema of type object: ${broken.length}`,
      'give every tool a name and an inputSchema of type object: clients ignore the whole list otherwise',
    )
  const twice = repeated(names)
  if (twice.length > 0)
    return fail(`${seen}; duplicate names: ${quoteAll(twice)}`, 'give every tool a unique name')
  const problemsOf = (member: string): string[] =>
    tools.flatMap((tool) =>
      schemaProblems(memberOf(tool, member)).map((one) => `${memberOf(tool, 'name')}, ${member}: ${one}`),
    )
  const outputs = problemsOf('outputSchema')
  const problems = [...outputs, ...problemsOf('inputSchema')]
  if (problems.length === 0) return undefined
  const all = `${seen}; ${quoteAll(problems)}`
  return outputs.length > 0
    ? fail(all, 'correct the schema: clients of SDK v1 lose the whole list otherwise')
    : warn(all, 'correct the schema: some clients cannot use the tool otherwise')
}

/** The estimate of a token, for English text and JSON. */
const CHARACTERS_PER_TOKEN = 4
/** The number of tokens of definitions from which Claude should load them on demand. */
const MAX_DEFINITION_TOKENS = 10_000
/** The number of tools from which Claude chooses wrong tools more often. */
const MANY_TOOLS = 50
/** The number of tools that a request of VS Code may have. */
const MAX_TOOLS = 128
/** The number of tools that the report names. */
const NAMED = 3

const TOOL_SEARCH = 'https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool'
const VS_CODE = 'https://code.visualstudio.com/docs/agents/run/tools'

/** The members of a tool that clients send to models. */
const PARTS = [
  ['name', 'name'],
  ['description', 'description'],
  ['inputSchema', 'schema'],
] as const

function tokensOf(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

/** Returns the number of characters of a tool, and the name of the tool with its size and its largest part. */
function sizeOf(tool: unknown): { readonly total: number; readonly seen: () => string } {
  const parts = PARTS.map(([member, part]) => ({ part, size: lengthOf(memberOf(tool, member)) }))
  const total = parts.reduce((sum, { size }) => sum + size, 0)
  const { part, size } = parts.reduce((one, other) => (other.size > one.size ? other : one))
  const seen = (): string =>
    `${quoteValue(memberOf(tool, 'name'))} ${tokensOf(total)} (${part} ${tokensOf(size)})`
  return { total, seen }
}

/** Returns the length of a text, or of the JSON of another value. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length
  try {
    return JSON.stringify(value)?.length ?? 0
  } catch {
    // JSON.stringify is recursive and can exceed the stack. JSON.parse cannot.
    throw new InconclusiveError('a schema is nested too deeply to be measured')
  }
}

/** The names that every model API accepts. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** The number of tokens from which Claude Code warns. */
const LARGE_TOKENS = 10_000
/** The number of tokens from which Claude Code cuts a result. */
const MAX_TOKENS = 25_000
/** The number of characters from which Claude rejects a result. */
const MAX_CHARACTERS = 150_000

export const TOOLS: CheckFunctions = {
  async 'call.round-trip'(examination) {
    const { modern, revision, request } = await conversation(examination)
    const method = modern ? 'server/discover' : 'ping'
    const response = await request(method)
    return response.hasResult
      ? ok(`${method} of ${revision}: ${response.durationMs} ms`)
      : fail(`${method}: ${response.summary}`, SEE_LOG)
  },
  async 'call.tools-list'(examination) {
    const response = await toolsResponse(examination)
    if (response.errorCode === -32_601) return ok('the server has no tools')
    const tools = response.result('tools')
    if (!Array.isArray(tools)) return fail(response.summary, SEE_LOG)
    const seen = `${counted(tools.length, 'tool')}${pageOf(response)}, ${response.durationMs} ms`
    const problem = checkTools(tools, seen)
    if (problem !== undefined) return problem
    if (response.result('cacheScope') !== 'public' || !(await isGuarded(examination))) return ok(seen)
    return warn(
      `${seen}; cacheScope is public, although a token is required`,
      'set cacheScope to private if the list depends on the token: shared caches can serve it to other users',
    )
  },
  async 'call.tool'(examination) {
    const response = await callResponse(examination)
    const name = quote(examination.options.call ?? '')
    if (response.status === 403)
      return fail(`${name}: ${response.summary}`, 'get a token with the scopes that the challenge names')
    if (!response.hasResult) return fail(response.summary, `check the name and --arguments, or ${SEE_LOG}`)
    return response.result('isError') === true
      ? fail(`${name} returned an error`, `check --arguments, or ${SEE_LOG}`)
      : ok(`${name}: ${response.durationMs} ms`)
  },
  async 'tools.size'(examination) {
    const tools = await listedTools(examination)
    if (tools.length === 0) return ok('the server has no tools')
    const sizes = tools.map(sizeOf)
    const characters = sizes.reduce((sum, { total }) => sum + total, 0)
    const tokens = tokensOf(characters)
    const most = sizes.toSorted((one, other) => other.total - one.total).slice(0, NAMED)
    const names = most.map(({ seen }) => seen()).join(', ')
    const measured = `${counted(tools.length, 'tool')}${pageOf(await toolsResponse(examination))}, about ${tokens} tokens (${characters} characters / ${CHARACTERS_PER_TOKEN}); the largest: ${names}`
    const shorten = `shorten the descriptions and schemas, or offer fewer tools: every request of a client without a search for tools sends all of them to the model, and Anthropic recommends a search above ${MAX_DEFINITION_TOKENS} tokens (${TOOL_SEARCH})`
    const many =
      tools.length > MAX_TOOLS
        ? `a request of VS Code has at most ${MAX_TOOLS} (${VS_CODE})`
        : `Claude chooses wrong ones more often above 30 to ${MANY_TOOLS} (${TOOL_SEARCH})`
    return worst([
      ok(measured),
      tokens > MAX_DEFINITION_TOKENS && warn(measured, shorten),
      tools.length > MANY_TOOLS && warn(measured, `offer fewer tools: ${many}`),
    ])
  },
  async 'tools.directory'(examination) {
    const tools = await listedTools(examination)
    if (tools.length === 0) return ok('the server has no tools')
    const namesOf = (wrong: (tool: unknown) => boolean): readonly unknown[] =>
      tools.filter(wrong).map((tool) => memberOf(tool, 'name'))
    const annotation = (tool: unknown, name: string): unknown => memberOf(tool, 'annotations', name)
    const named = namesOf((tool) => !TOOL_NAME.test(String(memberOf(tool, 'name'))))
    const untitled = namesOf((tool) => ![memberOf(tool, 'title'), annotation(tool, 'title')].some(isText))
    const unhinted = namesOf((tool) =>
      ['readOnlyHint', 'destructiveHint'].every((hint) => typeof annotation(tool, hint) !== 'boolean'),
    )
    const problems = [
      untitled.length > 0 && `without a title: ${quoteAll(untitled)}`,
      unhinted.length > 0 && `without readOnlyHint or destructiveHint: ${quoteAll(unhinted)}`,
    ].filter(Boolean)
    const wrongNames = `names with other characters than A-Z a-z 0-9 _ -, or with more than 64: ${quoteAll(named)}`
    return worst([
      ok(counted(tools.length, 'tool')),
      named.length > 0 && clientProblem(examination, 'tool-names', wrongNames),
      // Only a warning for every client: a tool without annotations works, but cannot be listed in a directory.
      problems.length > 0 &&
        warn(
          `${problems.join('; ')}; the directories of Claude and ChatGPT reject such servers`,
          'set title, annotations.readOnlyHint or annotations.destructiveHint, and for ChatGPT annotations.openWorldHint of every tool (https://claude.com/docs/connectors/faq)',
        ),
    ])
  },
  async 'tools.result-size'(examination) {
    const response = await callResponse(examination)
    const { call } = examination.options
    const tool = (await listedTools(examination)).find((one) => memberOf(one, 'name') === call)
    const characters = resultSize(response)
    const tokens = tokensOf(characters)
    const seen = `${characters} characters, about ${tokens} tokens`
    const raised = memberOf(tool, '_meta', 'anthropic/maxResultSizeChars')
    const isRaised = typeof raised === 'number' && characters <= raised
    const isCut = tokens > MAX_TOKENS && !isRaised
    const cut = `${seen}: the rest after ${MAX_TOKENS} tokens is cut off`
    const raise = 'return pages, or set _meta["anthropic/maxResultSizeChars"] of the tool'
    return worst([
      ok(seen),
      characters > MAX_CHARACTERS && clientProblem(examination, 'result-characters', seen),
      isCut && clientProblem(examination, 'result-tokens', cut, raise),
      tokens > LARGE_TOKENS &&
        !isCut &&
        !isRaised &&
        warn(
          `${seen}; Claude Code warns above ${LARGE_TOKENS} tokens`,
          'return pages, or less detail, so that the model keeps room for the conversation',
        ),
    ])
  },
}

async function listedTools(examination: Examination): Promise<readonly unknown[]> {
  return entriesOf((await toolsResponse(examination)).message, 'result', 'tools')
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== ''
}

/** Returns the number of characters of the texts of a result, or of the response if the result has other content. */
function resultSize(response: HttpExchange): number {
  const content = response.result('content')
  if (!Array.isArray(content) || response.result('structuredContent') !== undefined)
    return response.body.length
  const texts = content.map((item) => memberOf(item, 'text')).filter((text) => typeof text === 'string')
  return texts.join('').length
}
