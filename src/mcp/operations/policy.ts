import { isScopeToken } from '../../base/options/scope-token.ts'
import { isPromiseLike, isRecord } from '../../base/options/value-kinds.ts'
import { within } from '../../base/within.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import type { Authorize, PolicyDenial, PolicyQuery } from '../router/authorize.ts'
import type { Caller, Exchange, Failure, TimedCall } from '../wire/exchange.ts'

/** An operation that was denied. */
export interface Denied {
  readonly text: string | undefined
  readonly scopes: readonly string[]
  /** The reason why the policy has failed, if it has. */
  readonly failure: Failure | undefined
}

/** The members of a query that depend on the operation. */
export type PolicySubject = Pick<PolicyQuery, 'purpose' | 'kind' | 'name' | 'uri' | 'args'>

/** The option `authorize` of tools, by name. */
type ToolPolicies = ReadonlyMap<string, { readonly authorize?: Authorize<any> }>

/** The option `authorize` of an adapter and those of its tools, with their timeout. */
export class Policy {
  readonly #authorize: Authorize<any> | undefined
  readonly #timeoutMs: number

  readonly #tools: ToolPolicies | undefined

  constructor(authorize: Authorize<any> | undefined, timeoutMs: number, tools?: ToolPolicies) {
    this.#authorize = authorize
    this.#timeoutMs = timeoutMs
    this.#tools = tools
  }

  /** `false` if only tools have a policy. Lists are then complete. */
  get filtersLists(): boolean {
    return this.#authorize !== undefined
  }

  /** Returns undefined if the operation is permitted. Never rejects. */
  async denial(exchange: Caller, subject: PolicySubject): Promise<Denied | undefined> {
    const { purpose, kind, name } = subject
    const own = purpose === 'call' && kind === 'tool' ? this.#tools?.get(name)?.authorize : undefined
    return (
      (await this.#denialBy(this.#authorize, exchange, subject)) ?? this.#denialBy(own, exchange, subject)
    )
  }

  async #denialBy(
    authorize: Authorize<any> | undefined,
    exchange: Caller,
    subject: PolicySubject,
  ): Promise<Denied | undefined> {
    if (authorize === undefined) return undefined
    try {
      const returned: unknown = authorize(queryOf(exchange, subject))
      const decision = isPromiseLike(returned)
        ? await within(returned, this.#timeoutMs, () => timedOut(this.#timeoutMs))
        : returned
      return decision === true ? undefined : deniedBy(decision)
    } catch (thrown) {
      return { text: undefined, scopes: [], failure: { thrown } }
    }
  }
}

function timedOut(ms: number): DOMException {
  return new DOMException(`authorize did not settle within ${ms} ms`, 'TimeoutError')
}

function deniedBy(decision: unknown): Denied {
  if (decision === false) return { text: undefined, scopes: [], failure: undefined }
  const { deny, scopes = [] } = isRecord(decision) ? (decision as Partial<PolicyDenial>) : {}
  if (typeof deny !== 'string' || !Array.isArray(scopes) || !scopes.every(isScopeToken))
    throw new TypeError('authorize must return true, false, or { deny: string, scopes?: string[] }')
  // A challenge never asks for `offline_access`.
  const asked = scopes.filter((scope) => scope !== 'offline_access')
  return { text: deny === '' ? undefined : deny, scopes: asked, failure: undefined }
}

/** Emits the event of a call that was denied. */
export function recordDenial({ telemetry }: Exchange, call: TimedCall, denied: Denied): void {
  const { failure, text: reason } = denied
  telemetry.record('policy.denied', call, { purpose: 'call', failure, reason })
}

/** Returns the argument of `authorize`, and of `confirm` of a tool. Every member is an own property. */
export function queryOf(
  { context: source, auth }: Caller,
  { args, ...operation }: PolicySubject,
): PolicyQuery {
  const { context } = source
  return Object.assign(new LazyRequest(source), {
    ...operation,
    ...(args !== undefined && { args }),
    auth,
    context,
  })
}

/** An entry of a list, and the operation that it shows. */
interface ListEntry<Entry> {
  readonly entry: Entry
  readonly kind: PolicyQuery['kind']
  readonly name: string
  readonly uri?: string
}

/** Returns the entries of a list that the policy permits. One event is emitted if the policy has failed. */
export async function permittedEntries<Entry>(
  policy: Policy,
  exchange: Exchange,
  { id, method }: { readonly id: string | number; readonly method: string },
  entries: readonly ListEntry<Entry>[],
): Promise<Entry[]> {
  const denials = await Promise.all(
    entries.map(({ kind, name, uri }) =>
      policy.denial(exchange, { purpose: 'list', kind, name, ...(uri !== undefined && { uri }) }),
    ),
  )
  const failure = denials.find((denied) => denied?.failure !== undefined)?.failure
  if (failure !== undefined)
    exchange.telemetry.record('policy.denied', { method, id }, { purpose: 'list', failure })
  return entries.filter((_entry, index) => denials[index] === undefined).map(({ entry }) => entry)
}
