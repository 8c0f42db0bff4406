import { refusalText } from './refusals.ts'

/** An event as the server sent it, with its number in the order they came. */
export interface ConsoleEvent {
  readonly number: number
  readonly name: string
  readonly time: string
  readonly level: string
  readonly sessionId: string
  readonly actor?: { readonly type: string; readonly id?: string }
  readonly attributes?: Readonly<Record<string, unknown>>
  readonly error?: {
    readonly name: string
    readonly message: string
    readonly code?: string
    readonly stack?: string
  }
}

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/** What an event comes to, for people. */
export interface EventKind {
  /** Which view it belongs to, beside that of all events. */
  readonly group: 'gate' | 'tool' | 'request' | 'other'
  readonly tone: Tone
  /** A word or two: what happened. */
  readonly word: string
  /** The most important thing to know about it. */
  readonly title: string
  readonly hint?: string | undefined
}

/** Read out of an event once. */
export function kindOf(event: ConsoleEvent): EventKind {
  const { attributes = {}, name, error } = event
  switch (name) {
    case 'kit.mcp.auth.accepted':
      return { group: 'gate', tone: 'good', word: 'let in', title: operationOf(event) ?? 'the token is good' }
    case 'kit.mcp.auth.refused': {
      const reason = String(attributes.reason)
      const text = refusalText(reason)
      const title = text === undefined ? reason : `${reason}: ${text.says}`
      return { group: 'gate', tone: 'bad', word: 'refused', title, hint: text?.hint }
    }
    case 'kit.mcp.auth.unavailable':
      return {
        group: 'gate',
        tone: 'bad',
        word: 'outage',
        title: 'the access token could not be verified right now',
        hint: `The client was told 503 and comes again. Is the authorization server up?${error === undefined ? '' : ` ${error.message}`}`,
      }
    case 'kit.mcp.tool.completed':
      return { group: 'tool', tone: 'good', word: 'tool', title: toolOf(event) }
    case 'kit.mcp.tool.failed':
      return {
        group: 'tool',
        tone: 'bad',
        word: 'tool failed',
        title: error === undefined ? toolOf(event) : `${toolOf(event)}: ${error.message}`,
      }
    case 'kit.mcp.request.completed': {
      const status = Number(attributes['http.response.status_code'])
      const code = attributes['rpc.response.status_code']
      const failed = status >= 400 || code !== undefined
      const outcome = [status || '', code === undefined ? '' : `error ${code}`].filter((text) => text !== '')
      const title = `${operationOf(event) ?? 'a request'} → ${outcome.join(', ')}`
      return { group: 'request', tone: failed ? 'warn' : 'plain', word: 'answered', title }
    }
    case 'kit.mcp.request.failed':
      return {
        group: 'request',
        tone: 'bad',
        word: 'failed',
        title: `${operationOf(event) ?? 'a request'}: ${error?.message ?? 'what the application gave threw'}`,
      }
    default:
      return { group: 'other', tone: toneOf(event.level), word: event.level, title: titleOf(event) }
  }
}

/** Whose event it is, in a word. */
export function whoOf({ actor }: ConsoleEvent): string {
  return actor === undefined ? '' : (actor.id ?? actor.type)
}

/** How long what it tells of took; undefined where it does not say. */
export function durationOf({ attributes }: ConsoleEvent): number | undefined {
  const duration = attributes?.duration_ms
  return typeof duration === 'number' && Number.isFinite(duration) && duration >= 0 ? duration : undefined
}

/** `tools/call search`: what was asked for; undefined where the message had not been read. */
export function operationOf({ attributes = {} }: ConsoleEvent): string | undefined {
  const method = attributes['mcp.method.name']
  const target = ['gen_ai.tool.name', 'gen_ai.prompt.name', 'mcp.resource.uri']
    .map((key) => attributes[key])
    .find((value) => value !== undefined)
  if (method === undefined) return undefined
  return target === undefined ? String(method) : `${method} ${target}`
}

function toolOf({ attributes = {} }: ConsoleEvent): string {
  return String(attributes['gen_ai.tool.name'] ?? 'a tool')
}

function titleOf({ name, error }: ConsoleEvent): string {
  return error === undefined ? name : `${name}: ${error.message}`
}

function toneOf(level: string): Tone {
  if (level === 'error' || level === 'fatal') return 'bad'
  return level === 'warn' ? 'warn' : 'plain'
}
