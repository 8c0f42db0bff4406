import { counted } from '../../src/options/counted.ts'
import { toolsResponse } from './calls.ts'
import type { CheckFunctions } from './check.ts'
import { type Finding, InconclusiveError, ok, warn, worst } from './finding.ts'
import { memberOf } from './json-object.ts'
import { quoteValue } from './quote.ts'

/** The estimate of a token, for English text and JSON. */
export const CHARACTERS_PER_TOKEN = 4
/** The number of tokens of definitions from which Claude should load them on demand. */
const MAX_TOKENS = 10_000
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

interface ToolSize {
  readonly name: unknown
  /** The number of characters. */
  readonly total: number
  /** The part with the most characters. */
  readonly part: string
  readonly partSize: number
}

export const TOOL_SIZES: CheckFunctions = {
  async 'tools.size'(examination) {
    const response = await toolsResponse(examination)
    const tools = response.result('tools')
    if (!Array.isArray(tools) || tools.length === 0) return ok('the server has no tools')
    const more = response.result('nextCursor') === undefined ? '' : ' on the first page'
    return findingOf(tools.map(sizeOf), more)
  },
}

function findingOf(sizes: readonly ToolSize[], more: string): Finding {
  const characters = sizes.reduce((sum, { total }) => sum + total, 0)
  const tokens = tokensOf(characters)
  const most = sizes.toSorted((one, other) => other.total - one.total).slice(0, NAMED)
  const names = most.map(
    ({ name, total, part, partSize }) =>
      `${quoteValue(name)} ${tokensOf(total)} (${part} ${tokensOf(partSize)})`,
  )
  const measured = `${counted(sizes.length, 'tool')}${more}, about ${tokens} tokens (${characters} characters / ${CHARACTERS_PER_TOKEN}); the largest: ${names.join(', ')}`
  const findings = [ok(measured)]
  if (tokens > MAX_TOKENS)
    findings.push(
      warn(
        measured,
        `shorten the descriptions and schemas, or offer fewer tools: every request of a client without a search for tools sends all of them to the model, and Anthropic recommends a search above ${MAX_TOKENS} tokens (${TOOL_SEARCH})`,
      ),
    )
  if (sizes.length > MAX_TOOLS)
    findings.push(
      warn(measured, `offer fewer tools: a request of VS Code has at most ${MAX_TOOLS} (${VS_CODE})`),
    )
  else if (sizes.length > MANY_TOOLS)
    findings.push(
      warn(
        measured,
        `offer fewer tools: Claude chooses wrong ones more often above 30 to ${MANY_TOOLS} (${TOOL_SEARCH})`,
      ),
    )
  return worst(findings)
}

function tokensOf(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

function sizeOf(tool: unknown): ToolSize {
  const parts = PARTS.map(([member, part]) => ({ part, size: lengthOf(memberOf(tool, member)) }))
  const largest = parts.reduce((one, other) => (other.size > one.size ? other : one))
  return {
    name: memberOf(tool, 'name'),
    total: parts.reduce((sum, { size }) => sum + size, 0),
    part: largest.part,
    partSize: largest.size,
  }
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
