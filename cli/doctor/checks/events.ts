import { counted } from '../../../src/base/options/counted.ts'
import { isRecord } from '../../../src/base/options/value-kinds.ts'
import { signatureOf } from '../../../src/mcp/events/webhooks/signature.ts'
import { type CheckFunctions, type Examination, observation, type WebhookOptions } from '../examination.ts'
import { type Finding, fail, findingsOfEach, InconclusiveError, ok, onlyIf, warn, worst } from '../finding.ts'
import { answerOf, HttpExchange } from '../http-exchange.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { entriesOf, memberOf } from '../values.ts'
import { conversation, revisions } from './protocol.ts'
import { pageOf, repeated, SEE_LOG } from './tools.ts'
import { receiveWebhooks, type WebhookEndpoint, type WebhookMessage } from './webhook-receiver.ts'

const EXTENSION = 'io.modelcontextprotocol/events'

/** The methods of each delivery (SEP-3415). */
const METHODS: Readonly<Record<string, readonly string[]>> = {
  poll: ['events/poll'],
  push: ['events/stream'],
  webhook: ['events/subscribe', 'events/unsubscribe'],
}
const DELIVERIES: readonly unknown[] = Object.keys(METHODS)

/** A name that no server uses for an event type. */
const UNKNOWN_EVENT = 'mcp-gatekit-doctor-unknown'

const HINT = 'with this package: router.event() declares an event type, and serves its methods'

/** Sends a request about events. @throws {InconclusiveError} if it needs a token, and there is none */
async function askAboutEvents(
  examination: Examination,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<HttpExchange> {
  const response = await (await conversation(examination)).request(method, params)
  const needsToken = response.status === 401 && examination.token === undefined
  onlyIf(!needsToken, '401: events need a token: use --token-env or --login')
  return response
}

/** The members in which the server declares events. @throws {InconclusiveError} if it declares none */
const declarations = observation(async (examination) => {
  const { capabilities } = await revisions(examination)
  const members = [
    ['capabilities.events', memberOf(capabilities, 'events')],
    [`capabilities.extensions["${EXTENSION}"]`, memberOf(capabilities, 'extensions', EXTENSION)],
  ] as const
  const declared = members.filter(([, value]) => isRecord(value)).map(([member]) => member)
  onlyIf(declared.length > 0, 'the server declares no events')
  return declared
})

const listResponse = observation((examination) => askAboutEvents(examination, 'events/list'))

/** The entries of `events/list`, which are not checked. */
async function listedEvents(examination: Examination): Promise<readonly unknown[]> {
  return entriesOf((await listResponse(examination)).message, 'result', 'events')
}

/** Returns the deliveries of an entry of `events/list`. */
const deliveriesOf = (entry: unknown): readonly unknown[] => entriesOf(entry, 'delivery')

/** Calls a method with an event type that does not exist, which changes nothing. */
async function probe(examination: Examination, method: string): Promise<Finding> {
  const response = await askAboutEvents(examination, method, { name: UNKNOWN_EVENT, arguments: {} })
  const { errorCode } = response
  if (errorCode === -32_601)
    return fail(`${method} does not exist`, `serve ${method}, or leave its delivery out of events/list`)
  if (response.hasResult)
    return fail(`${method} accepts an event type that does not exist`, 'respond with the error -32011')
  return typeof errorCode === 'number' ? ok(method) : fail(`${method}: ${response.summary}`, SEE_LOG)
}

/** The error of SEP-3415 for a webhook that was not verified. */
const CALLBACK_ERROR = -32_015
/** The time to wait for an event. */
const WAIT_MS = 60_000
/** The subscriptions end by themselves after this time, also if doctor is stopped. */
const TTL_MS = 180_000
/** The maximum age of a message (Standard Webhooks, "Verifying timestamp"). */
const MAX_AGE_S = 300

const SIGN_HINT =
  'sign each message as in Standard Webhooks: webhook-signature is v1, and the Base64 of the HMAC-SHA256 of <webhook-id>.<webhook-timestamp>.<body>, with the bytes of the secret after whsec_ as key'

/** @throws {InconclusiveError} without `--events` */
function webhookOptions({ options }: Examination): WebhookOptions {
  onlyIf(options.webhook !== undefined, 'only with --events')
  return options.webhook
}

/** The names of the event types that doctor can subscribe to. */
async function possibleEvents(examination: Examination): Promise<readonly unknown[]> {
  const isPossible = (entry: unknown): boolean =>
    entriesOf(entry, 'inputSchema', 'required').length === 0 && deliveriesOf(entry).includes('webhook')
  return (await listedEvents(examination)).filter(isPossible).map((entry) => memberOf(entry, 'name'))
}

/** The event type to subscribe to. @throws {InconclusiveError} if it is not possible */
const eventName = observation(async (examination) => {
  const { event } = webhookOptions(examination)
  const names = await possibleEvents(examination)
  onlyIf(names.length > 0, 'no event type has webhooks and works without arguments')
  const name = event ?? (names[0] as string)
  onlyIf(names.includes(name), 'the event type of --event cannot be used: see events.challenge')
  return name
})

const receiver = observation(async (examination) => {
  const server = await receiveWebhooks(webhookOptions(examination).port)
  examination.closing.push(() => server.close())
  return server
})

/** Asks for a subscription, with an endpoint that answers its challenge rightly or wrongly. `end` ends the subscription. */
async function subscribe(examination: Examination, answersRightly: boolean) {
  const name = await eventName(examination)
  const endpoint = (await receiver(examination)).endpoint(webhookOptions(examination).url, answersRightly)
  const { url, secret } = endpoint
  for (const text of [secret, secret.slice('whsec_'.length), endpoint.key]) examination.secrets.add(text)
  const delivery = { mode: 'webhook', url }
  const subscription = { name, arguments: {}, delivery }
  const params = { ...subscription, delivery: { ...delivery, secret }, cursor: null, ttlMs: TTL_MS }
  const response = await answerOf(askAboutEvents(examination, 'events/subscribe', params))
  let ending: Promise<HttpExchange> | undefined
  const end = (): Promise<HttpExchange> => {
    ending ??= askAboutEvents(examination, 'events/unsubscribe', subscription)
    return ending
  }
  // A response that was lost may have been a success.
  if (!(response instanceof HttpExchange) || response.hasResult) examination.closing.push(end)
  return { endpoint, response, end }
}

const rightly = observation((examination) => subscribe(examination, true))

/** The rules for an entry of `events/list`, each with its fix. */
const RULES: readonly (readonly [
  report: typeof fail,
  problem: string,
  hint: string,
  isMet: (entry: unknown) => boolean,
])[] = [
  [
    fail,
    'without a valid delivery',
    `set delivery to a list of at least one of ${DELIVERIES.join(', ')}`,
    (entry) => deliveriesOf(entry).length > 0 && deliveriesOf(entry).every((way) => DELIVERIES.includes(way)),
  ],
  [
    fail,
    'without an inputSchema of type object',
    'set inputSchema to the JSON Schema of the arguments; without arguments, to { "type": "object" }',
    (entry) => memberOf(entry, 'inputSchema', 'type') === 'object',
  ],
  [
    fail,
    'without a payloadSchema',
    'set payloadSchema to the JSON Schema of the data',
    (entry) => isRecord(memberOf(entry, 'payloadSchema')),
  ],
  [
    warn,
    'without a description',
    'describe when the event happens, for the model',
    (entry) => typeof memberOf(entry, 'description') === 'string',
  ],
]

export const EVENTS: CheckFunctions = {
  async 'events.capability'(examination) {
    const declared = await declarations(examination)
    const response = await listResponse(examination)
    const seen = declared.join(' and ')
    if (response.status === 401 || response.status === 403)
      return fail(`events/list: ${response.summary}`, 'get a token that may list event types')
    if (response.errorCode === -32_601)
      return fail(
        `${seen}, but events/list does not exist`,
        `serve events/list, or do not declare events; ${HINT}`,
      )
    if (!Array.isArray(response.result('events')))
      return fail(`events/list: ${response.summary}, without a list`, SEE_LOG)
    if (declared.length > 1) return ok(seen)
    return warn(
      `only ${seen}`,
      `declare both capabilities.events and the extension ${EXTENSION}: ChatGPT reads the first, other clients the second`,
    )
  },
  async 'events.list'(examination) {
    const events = await listedEvents(examination)
    const names = events.map((entry) => memberOf(entry, 'name'))
    const isNamed = names.every((name) => typeof name === 'string' && name !== '')
    const twice = repeated(names)
    const seen = `${counted(events.length, 'event type')}${pageOf(await listResponse(examination))}${events.length === 0 ? '' : `: ${quoteAll(names)}`}`
    return worst([
      ok(seen),
      !isNamed && fail('an event type without a name', 'give every event type a name'),
      isNamed &&
        twice.length > 0 &&
        fail(`duplicate names: ${quoteAll(twice)}`, 'give every event type a unique name'),
      ...RULES.map(([report, problem, hint, isMet]) => {
        const wrong = events.filter((entry) => !isMet(entry)).map((entry) => memberOf(entry, 'name'))
        return wrong.length > 0 && report(`${problem}: ${quoteAll(wrong)}`, hint)
      }),
    ])
  },
  async 'events.methods'(examination) {
    const offered = new Set((await listedEvents(examination)).flatMap(deliveriesOf))
    const methods = Object.entries(METHODS).flatMap(([way, names]) => (offered.has(way) ? names : []))
    onlyIf(methods.length > 0, 'the server lists no event type')
    return worst(await findingsOfEach(methods, (method) => probe(examination, method)))
  },
  // The first one: a server may verify a host once for all its URLs.
  async 'events.wrong-challenge'(examination) {
    const { endpoint, response } = await subscribe(examination, false)
    if (!(response instanceof HttpExchange)) throw new InconclusiveError('no response: see events.challenge')
    const isChallenged = endpoint.challenges.length > 0
    if (response.hasResult)
      return fail(
        `subscribed, although the receiver ${isChallenged ? 'answered with another challenge' : 'got no challenge'}`,
        'subscribe only a receiver that returns the challenge: otherwise anyone can direct messages at servers of others',
      )
    onlyIf(isChallenged, 'no challenge arrived: see events.challenge')
    const { errorCode } = response
    return errorCode === CALLBACK_ERROR
      ? ok(String(CALLBACK_ERROR))
      : warn(response.summary, `respond with the error ${CALLBACK_ERROR}, so that clients see the cause`)
  },
  async 'events.challenge'(examination) {
    const { event, port } = webhookOptions(examination)
    const names = await possibleEvents(examination)
    if (event !== undefined && names.length > 0 && !names.includes(event))
      return fail(
        `${quote(event)} is not an event type that has webhooks and works without arguments`,
        `set --event to one of ${quoteAll(names)}`,
      )
    const { endpoint, response } = await rightly(examination)
    const isChallenged = endpoint.challenges.length > 0
    if (!(response instanceof HttpExchange) || !response.hasResult) {
      const stated = response instanceof HttpExchange ? stateOf(response) : response.message
      if (isChallenged) return fail(`${stated}, although doctor returned the challenge`, SEE_LOG)
      if (response instanceof HttpExchange && response.errorCode !== CALLBACK_ERROR)
        return fail(stated, `check the scopes of the token and the URL of --events, or ${SEE_LOG}`)
      return fail(
        `${stated}; no challenge has reached port ${port}`,
        `let the URL of --events lead to http://127.0.0.1:${port}, as with a tunnel. It must be a public address for the server`,
      )
    }
    if (!isChallenged)
      return fail(
        'subscribed without a challenge',
        'send a challenge to a new URL before its first event: otherwise anyone can direct messages at servers of others',
      )
    const [id, refreshBefore] = [response.result('id'), response.result('refreshBefore')]
    if (typeof id !== 'string' || !isTime(refreshBefore))
      return fail(
        `subscribed with id ${quoteValue(id)} and refreshBefore ${quoteValue(refreshBefore)}`,
        'respond with the id of the subscription, and with the time until which clients renew it',
      )
    return ok(`${await eventName(examination)}: subscribed after a challenge`)
  },
  async 'events.signature'(examination) {
    const { endpoint } = await rightly(examination)
    const [challenge] = endpoint.challenges as [WebhookMessage]
    return signatureProblem(challenge, endpoint) ?? ok('the challenge has a valid signature')
  },
  async 'events.delivery'(examination) {
    const { endpoint, response } = await rightly(examination)
    const { waitMs = WAIT_MS } = webhookOptions(examination)
    const name = await eventName(examination)
    const seconds = waitMs / 1000
    examination.options.print(`Waiting ${seconds} s for the event ${quote(name)}. Cause one now.`)
    const message = await endpoint.next(waitMs)
    if (message === undefined)
      return warn(`no event within ${seconds} s`, `cause the event ${quote(name)} while doctor waits for it`)
    const problem = signatureProblem(message, endpoint)
    const [given, id] = [message.headers['x-mcp-subscription-id'], (response as HttpExchange).result('id')]
    if (problem === undefined && given !== id)
      return fail(
        `X-MCP-Subscription-Id: ${quoteValue(given)} instead of ${quoteValue(id)}`,
        'set X-MCP-Subscription-Id to the id of the subscription: receivers find the secret with it',
      )
    return (
      problem ??
      contentProblem(message, name) ??
      ok(`${name}: event ${quoteValue(message.content?.eventId)} with a valid signature`)
    )
  },
  async 'events.unsubscribe'(examination) {
    const response = await (await rightly(examination)).end()
    if (response.hasResult) return ok('events/unsubscribe')
    const hint = 'let events/unsubscribe end the subscription of the same user, URL, name, and arguments'
    return fail(stateOf(response), hint)
  },
}

/** Returns the words of the server, with the reason of a webhook that was not verified. */
function stateOf({ summary, message }: HttpExchange): string {
  const reason = memberOf(message, 'error', 'data', 'reason')
  return typeof reason === 'string' ? `${summary}, "${quote(reason)}"` : summary
}

function isTime(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value))
}

/** Returns the problem of the signature of a message, or `undefined`. */
function signatureProblem(message: WebhookMessage, { secret }: WebhookEndpoint): Finding | undefined {
  const { headers, body } = message
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature } = headers
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signature !== 'string')
    return fail('a message without webhook-id, webhook-timestamp, or webhook-signature', SIGN_HINT)
  const timestamp = Number(time)
  if (!/^\d+$/.test(time) || Math.abs(Date.now() / 1000 - timestamp) > MAX_AGE_S)
    return fail(
      `webhook-timestamp: ${quote(time)}`,
      'set webhook-timestamp to the time of the attempt in seconds since 1970, and check the clock of the server',
    )
  return signature.split(' ').includes(signatureOf({ id, timestamp, body }, [secret]))
    ? undefined
    : fail('webhook-signature does not match the secret of the subscription', SIGN_HINT)
}

/** Returns the problem of the body of an event, or `undefined`. */
function contentProblem({ content }: WebhookMessage, name: string): Finding | undefined {
  if (content?.type === 'terminated')
    return fail(
      'the server has ended the subscription (terminated)',
      'check whether the user of the token may receive the event',
    )
  const { eventId, name: given, timestamp, data } = content ?? {}
  const isValid = typeof eventId === 'string' && isTime(timestamp) && isRecord(data)
  if (isValid && given === name) return undefined
  return fail(
    `a message with the members ${quoteValue(Object.keys(content ?? {}))} and the name ${quoteValue(given)}`,
    'send eventId, the name of the event type, timestamp, and data, as in SEP-3415',
  )
}
