import { counted } from '../../src/options/counted.ts'
import { isRecord } from '../../src/options/value-kinds.ts'
import { repeated, SEE_LOG } from './calls.ts'
import type { CheckFunctions } from './check.ts'
import { conversation, revisions } from './conversation.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { memberOf } from './json-object.ts'
import { quoteAll } from './quote.ts'

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
export async function askAboutEvents(
  examination: Examination,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<HttpExchange> {
  const response = await (await conversation(examination)).request(method, params)
  if (response.status === 401 && examination.token === undefined)
    throw new InconclusiveError('401: events need a token: use --token-env or --login')
  return response
}

/** The members in which the server declares events. @throws {InconclusiveError} if it declares none */
const declarations: Observation<readonly string[]> = observation(async (examination) => {
  const { capabilities } = await revisions(examination)
  const members = [
    ['capabilities.events', memberOf(capabilities, 'events')],
    [`capabilities.extensions["${EXTENSION}"]`, memberOf(memberOf(capabilities, 'extensions'), EXTENSION)],
  ] as const
  const declared = members.filter(([, value]) => isRecord(value)).map(([member]) => member)
  if (declared.length === 0) throw new InconclusiveError('the server declares no events')
  return declared
})

const listResponse: Observation<HttpExchange> = observation((examination) =>
  askAboutEvents(examination, 'events/list'),
)

/** The entries of `events/list`, which are not checked. */
export async function listedEvents(examination: Examination): Promise<readonly unknown[]> {
  const events = (await listResponse(examination)).result('events')
  return Array.isArray(events) ? events : []
}

/** Returns the deliveries of an entry of `events/list`. */
export function deliveriesOf(entry: unknown): readonly unknown[] {
  const delivery = memberOf(entry, 'delivery')
  return Array.isArray(delivery) ? delivery : []
}

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
    const more =
      (await listResponse(examination)).result('nextCursor') === undefined ? '' : ' on the first page'
    const names = events.map((entry) => memberOf(entry, 'name'))
    const seen = `${counted(events.length, 'event type')}${more}${events.length === 0 ? '' : `: ${quoteAll(names)}`}`
    return worst([ok(seen), ...checkNames(names), ...checkEntries(events)])
  },
  async 'events.methods'(examination) {
    const offered = new Set((await listedEvents(examination)).flatMap(deliveriesOf))
    const methods = Object.entries(METHODS).flatMap(([way, names]) => (offered.has(way) ? names : []))
    if (methods.length === 0) throw new InconclusiveError('the server lists no event type')
    const findings: Finding[] = []
    for (const method of methods) findings.push(await probe(examination, method))
    return worst(findings)
  },
}

function checkNames(names: readonly unknown[]): readonly Finding[] {
  if (!names.every((name) => typeof name === 'string' && name !== ''))
    return [fail('an event type without a name', 'give every event type a name')]
  const twice = repeated(names)
  return twice.length === 0
    ? []
    : [fail(`duplicate names: ${quoteAll(twice)}`, 'give every event type a unique name')]
}

/** The rules for an entry of `events/list`, each with its fix. */
const RULES: readonly (readonly [problem: string, hint: string, isMet: (entry: unknown) => boolean])[] = [
  [
    'without a valid delivery',
    `set delivery to a list of at least one of ${DELIVERIES.join(', ')}`,
    (entry) => deliveriesOf(entry).length > 0 && deliveriesOf(entry).every((way) => DELIVERIES.includes(way)),
  ],
  [
    'without an inputSchema of type object',
    'set inputSchema to the JSON Schema of the arguments; without arguments, to { "type": "object" }',
    (entry) => memberOf(memberOf(entry, 'inputSchema'), 'type') === 'object',
  ],
  [
    'without a payloadSchema',
    'set payloadSchema to the JSON Schema of the data',
    (entry) => isRecord(memberOf(entry, 'payloadSchema')),
  ],
]

function checkEntries(events: readonly unknown[]): readonly Finding[] {
  const without = (isMet: (entry: unknown) => boolean): readonly unknown[] =>
    events.filter((entry) => !isMet(entry)).map((entry) => memberOf(entry, 'name'))
  const findings = RULES.flatMap(([problem, hint, isMet]) => {
    const names = without(isMet)
    return names.length === 0 ? [] : [fail(`${problem}: ${quoteAll(names)}`, hint)]
  })
  const mute = without((entry) => typeof memberOf(entry, 'description') === 'string')
  if (mute.length > 0)
    findings.push(
      warn(`without a description: ${quoteAll(mute)}`, 'describe when the event happens, for the model'),
    )
  return findings
}

/** Calls a method with an event type that does not exist, which changes nothing. */
async function probe(examination: Examination, method: string): Promise<Finding> {
  const response = await askAboutEvents(examination, method, { name: UNKNOWN_EVENT, arguments: {} })
  const { errorCode } = response
  if (errorCode === -32_601)
    return fail(`${method} does not exist`, `serve ${method}, or leave its delivery out of events/list`)
  if (response.message?.result !== undefined)
    return fail(`${method} accepts an event type that does not exist`, 'respond with the error -32011')
  return typeof errorCode === 'number' ? ok(method) : fail(`${method}: ${response.summary}`, SEE_LOG)
}
