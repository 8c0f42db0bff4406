import { boundedFetch } from '../../src/base/http/bounded-fetch.ts'
import { OWN_USER_AGENT } from './observer/observed-request.ts'

const TIMEOUT_MS = 5_000
const MAX_BYTES = 1_048_576

/** A member of a list of tools, which is not checked. */
type Tool = Readonly<Record<string, any>>

/**
 * Returns a `curl` command that calls a tool of a server with a token: the first tool that only reads, or otherwise the first one.
 * Resolves with `undefined` if the server lists no tool to this token. Never rejects.
 */
export async function curlCommand(url: string, token: string): Promise<string | undefined> {
  const headers = {
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
  }
  try {
    const init = {
      method: 'POST',
      headers: { ...headers, 'User-Agent': OWN_USER_AGENT },
      body: message('tools/list', {}),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }
    const response = await boundedFetch(url, init, { maxBytes: MAX_BYTES })
    const [, json = ''] = /^(?:data: ?)?(\{.*\})$/m.exec(await response.text()) ?? []
    const tools: readonly Tool[] = JSON.parse(json).result.tools
    const tool = tools.find(({ annotations }) => annotations?.readOnlyHint === true) ?? tools[0]
    if (tool === undefined || !/^[\w.-]+$/.test(tool.name)) return undefined
    const body = message('tools/call', { name: tool.name, arguments: sampleOf(tool.inputSchema) })
    const options = Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`)
    return `curl '${url}' ${options.join(' ')} -d '${body.replaceAll(/[^ -~]|'/g, escapeOf)}'`
  } catch {
    return undefined
  }
}

function message(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
}

/** Returns the escape sequence of JSON for a character that a shell or a terminal could treat in a special way. */
function escapeOf(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Returns a value that a simple schema accepts, with only the required members of an object. */
function sampleOf({ type, properties, required, ...schema }: Tool): unknown {
  const known = schema.default ?? schema.examples?.[0] ?? schema.enum?.[0]
  if (known !== undefined) return known
  if (type === 'object')
    return Object.fromEntries(
      (required ?? []).map((name: string) => [name, sampleOf(properties?.[name] ?? {})]),
    )
  const samples: Tool = { integer: 1, number: 1, boolean: true, array: [], null: null }
  return type !== undefined && type in samples ? samples[type] : 'Ada'
}
