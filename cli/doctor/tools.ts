import { counted } from '../../src/options/counted.ts'
import { callResponse, toolsResponse } from './calls.ts'
import type { CheckFunctions } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { memberOf } from './json-object.ts'
import { quoteAll } from './quote.ts'
import { CHARACTERS_PER_TOKEN } from './tool-sizes.ts'

/** The names that every model API accepts. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** The number of tokens from which Claude Code warns. */
const LARGE_TOKENS = 10_000
/** The number of tokens from which Claude Code cuts a result. */
const MAX_TOKENS = 25_000
/** The number of characters from which Claude rejects a result. */
const MAX_CHARACTERS = 150_000

export const TOOLS: CheckFunctions = {
  async 'tools.directory'(examination) {
    const tools = await listedTools(examination)
    if (tools.length === 0) return ok('the server has no tools')
    return worst([
      ok(counted(tools.length, 'tool')),
      ...checkNames(examination, tools),
      ...checkAnnotations(tools),
    ])
  },
  async 'tools.result-size'(examination) {
    const { call } = examination.options
    const response = await callResponse(examination)
    const tool = (await listedTools(examination)).find((one) => memberOf(one, 'name') === call)
    return checkSize(examination, sizeOf(response), memberOf(tool, '_meta'))
  },
}

async function listedTools(examination: Examination): Promise<readonly unknown[]> {
  const tools = (await toolsResponse(examination)).result('tools')
  return Array.isArray(tools) ? tools : []
}

function checkNames(examination: Examination, tools: readonly unknown[]): readonly Finding[] {
  const names = tools.map((tool) => memberOf(tool, 'name'))
  const wrong = names.filter((name) => typeof name !== 'string' || !TOOL_NAME.test(name))
  if (wrong.length === 0) return []
  const seen = `names with other characters than A-Z a-z 0-9 _ -, or with more than 64: ${quoteAll(wrong)}`
  return [clientProblem(examination, 'tool-names', seen)]
}

/** Only a warning for every client: a tool without annotations works, but cannot be listed in a directory. */
function checkAnnotations(tools: readonly unknown[]): readonly Finding[] {
  const without = (isComplete: (tool: unknown, annotations: unknown) => boolean): readonly unknown[] =>
    tools
      .filter((tool) => !isComplete(tool, memberOf(tool, 'annotations')))
      .map((tool) => memberOf(tool, 'name'))
  const isTitled = (value: unknown): boolean => isText(memberOf(value, 'title'))
  const untitled = without((tool, annotations) => isTitled(tool) || isTitled(annotations))
  const unhinted = without((_tool, annotations) =>
    ['readOnlyHint', 'destructiveHint'].some((hint) => typeof memberOf(annotations, hint) === 'boolean'),
  )
  const problems = [
    ...(untitled.length > 0 ? [`without a title: ${quoteAll(untitled)}`] : []),
    ...(unhinted.length > 0 ? [`without readOnlyHint or destructiveHint: ${quoteAll(unhinted)}`] : []),
  ]
  if (problems.length === 0) return []
  return [
    warn(
      `${problems.join('; ')}; the directories of Claude and ChatGPT reject such servers`,
      'set title, annotations.readOnlyHint or annotations.destructiveHint, and for ChatGPT annotations.openWorldHint of every tool (https://claude.com/docs/connectors/faq)',
    ),
  ]
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== ''
}

/** Returns the number of characters of the texts of a result, or of the response if the result has other content. */
function sizeOf(response: HttpExchange): number {
  const content = response.result('content')
  if (!Array.isArray(content) || response.result('structuredContent') !== undefined)
    return response.body.length
  const texts = content.map((item) => memberOf(item, 'text')).filter((text) => typeof text === 'string')
  return texts.join('').length
}

function checkSize(examination: Examination, characters: number, meta: unknown): Finding {
  const tokens = Math.ceil(characters / CHARACTERS_PER_TOKEN)
  const seen = `${characters} characters, about ${tokens} tokens`
  const raised = memberOf(meta, 'anthropic/maxResultSizeChars')
  const isRaised = typeof raised === 'number' && characters <= raised
  const findings: Finding[] = []
  if (characters > MAX_CHARACTERS) findings.push(clientProblem(examination, 'result-characters', seen))
  if (tokens > MAX_TOKENS && !isRaised) {
    const cut = `${seen}: the rest after ${MAX_TOKENS} tokens is cut off`
    const hint = 'return pages, or set _meta["anthropic/maxResultSizeChars"] of the tool'
    findings.push(clientProblem(examination, 'result-tokens', cut, hint))
  }
  if (findings.length > 0) return worst(findings)
  if (tokens <= LARGE_TOKENS || isRaised) return ok(seen)
  return warn(
    `${seen}; Claude Code warns above ${LARGE_TOKENS} tokens`,
    'return pages, or less detail, so that the model keeps room for the conversation',
  )
}
