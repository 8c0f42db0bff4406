import type { WebhookError } from '../../../src/mcp/events/store.ts'
import { attributeText, type ConsoleEvent, lookUp } from './console-event.ts'
import type { EventKind, Tone } from './event-kind.ts'

/** The next step for a webhook that has not accepted a message, by `error.type`. */
const HINTS: Readonly<Record<WebhookError, string>> = {
  connection_refused:
    'The receiver must listen at a public address. Addresses of this machine or of a private network are not used: for development, give the client the URL of a tunnel.',
  timeout: 'The receiver must answer within 10 s, so it should store the message and process it later.',
  tls_error:
    'The certificate of the receiver must be valid, and of an authority that this machine trusts (NODE_EXTRA_CA_CERTS).',
  http_4xx:
    'The receiver refuses the message, or redirects it. Compare its path, and the secret with which it verifies signatures. 410 ends the subscription, and 413 gives up this event.',
  http_5xx: 'Look for the error in the log of the receiver.',
  challenge_failed:
    'The receiver must answer {"type":"verification","challenge":"…"} with status 200 and a JSON body that has only this challenge: {"challenge":"…"}.',
}

/** The events about MCP events, by their names. */
export const MCP_EVENT_KINDS: Readonly<Record<string, (event: ConsoleEvent) => EventKind>> = {
  'kit.mcp.event.emitted': (event) => kind(event, 'plain', 'emitted', 'the server has emitted an event'),
  'kit.mcp.event.subscribed': (event) =>
    kind(event, 'good', 'subscribed', `a client subscribes with a webhook at ${hostOf(event)}`),
  'kit.mcp.event.renewed': (event) =>
    kind(event, 'plain', 'renewed', `a client has renewed its webhook at ${hostOf(event)}`),
  'kit.mcp.event.unsubscribed': (event) => kind(event, 'plain', 'ended', 'a client has ended its webhook'),
  'kit.mcp.event.refused': (event) =>
    kind(
      event,
      'bad',
      'refused',
      `the subscription is refused, because the webhook has not answered its challenge${failureOf(event)}`,
      hintOf(event),
    ),
  'kit.mcp.event.delivered': (event) => {
    const attempts = Number(attributeText(event.attributes?.['kit.mcp.event.attempts']))
    const times = attempts > 1 ? `, at attempt ${attempts}` : ''
    return kind(event, 'good', 'delivered', `the webhook has accepted ${messageOf(event)}${times}`)
  },
  'kit.mcp.event.failed': (event) => {
    const attempts = attributeText(event.attributes?.['kit.mcp.event.attempts'])
    const title = `the webhook has not accepted ${messageOf(event)}${failureOf(event)}: attempt ${attempts}, repeated later`
    return kind(event, 'bad', 'failed', title, hintOf(event))
  },
  'kit.mcp.event.abandoned': (event) =>
    kind(
      event,
      'bad',
      'given up',
      `${messageOf(event)} is not sent to the webhook again${failureOf(event)}`,
      hintOf(event),
    ),
  'kit.mcp.event.dropped': (event) =>
    kind(
      event,
      'bad',
      'dropped',
      'the owner of the webhook has no room for a further delivery',
      'A user has 8 MiB for waiting deliveries. Check why the receiver does not accept them, and emit smaller events: an id, and a tool that returns the rest.',
    ),
  'kit.mcp.event.terminated': (event) =>
    kind(
      event,
      'warn',
      'terminated',
      'the subscription has ended, because its owner may no longer receive the events',
      'Scopes or authorize denied a delivery. To leave out single events, use match of emit instead.',
    ),
}

function kind(event: ConsoleEvent, tone: Tone, word: string, text: string, hint?: string): EventKind {
  const name = attributeText(event.attributes?.['kit.mcp.event.name'] ?? 'an event type')
  return { group: 'event', tone, word, title: `${name}: ${text}`, hint }
}

function hostOf({ attributes = {} }: ConsoleEvent): string {
  return attributeText(attributes['kit.mcp.event.host'] ?? 'an unknown host')
}

/** Returns the message of a delivery in words: an event with its id, or a control message. */
function messageOf({ attributes = {} }: ConsoleEvent): string {
  const { 'kit.mcp.event.kind': kind, 'kit.mcp.event.id': id } = attributes
  if (kind === 'gap' || kind === 'terminated') return `the message ${kind}`
  return id === undefined ? 'an event' : `event ${attributeText(id)}`
}

/** Returns the reason of a failure in parentheses, or an empty string if the event has none. */
function failureOf({ attributes = {} }: ConsoleEvent): string {
  const { 'error.type': type, 'http.response.status_code': status } = attributes
  if (type === undefined) return ''
  return ` (${attributeText(type)}${status === undefined ? '' : `, status ${attributeText(status)}`})`
}

function hintOf({ attributes = {} }: ConsoleEvent): string | undefined {
  return lookUp(HINTS, attributes['error.type'])
}
