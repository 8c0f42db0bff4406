import type { AuthInfo } from '../../oauth/auth-info.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import { isScopeToken } from '../../options/scope-token.ts'
import { isPromiseLike, isRecord } from '../../options/value-kinds.ts'
import { within } from '../../within.ts'
import type { OperationKind } from '../router/middleware.ts'
import type { Exchange } from '../wire/exchange.ts'
import type { Failure } from '../wire/request-telemetry.ts'

/** The argument of `authorize`: an operation that a client wants to use, or to see in a list. */
export interface PolicyQuery<App = unknown, User = any> {
  /** `call` for a tool call, a prompt get, or a resource read. `list` for an entry of a list. */
  readonly purpose: 'call' | 'list'
  /** The kind of the operation. A resource template is a `resource`. */
  readonly kind: OperationKind
  /** The full name of the operation, with the prefixes of `merge()`. */
  readonly name: string
  /** The canonical URI of a resource. Absent for tools, prompts, and the templates in a list. */
  readonly uri?: string
  /** The validated arguments or, for a resource, the variables of its template. Absent for lists. */
  readonly args?: Readonly<Record<string, unknown>>
  /** The verified token. Undefined if OAuth is disabled. */
  readonly auth: AuthInfo<User> | undefined
  /** The value that the router's `.context()` returned for this request. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
}

/** A denial with a reason for the client. */
export interface PolicyDenial {
  /** The text that the client receives. */
  readonly deny: string
  /** The scopes that would permit the operation. The response is then the 403 challenge for them. */
  readonly scopes?: readonly string[] | undefined
}

/** The result of `authorize`. `true` permits the operation; everything else denies it. */
export type PolicyDecision = boolean | PolicyDenial

/** Decides whether a request may use an operation, or see it in a list. If it throws or rejects, the operation is denied. */
export type Authorize<App = unknown, User = any> = (
  query: PolicyQuery<App, User>,
) => PolicyDecision | Promise<PolicyDecision>

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
  async denial(exchange: Exchange, subject: PolicySubject): Promise<Denied | undefined> {
    const { purpose, kind, name } = subject
    const own = purpose === 'call' && kind === 'tool' ? this.#tools?.get(name)?.authorize : undefined
    return (
      (await this.#denialBy(this.#authorize, exchange, subject)) ?? this.#denialBy(own, exchange, subject)
    )
  }

  async #denialBy(
    authorize: Authorize<any> | undefined,
    exchange: Exchange,
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

/** Returns the argument of `authorize`. Every member is an own property. */
function queryOf({ context: source, auth }: Exchange, { args, ...operation }: PolicySubject): PolicyQuery {
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
  readonly kind: OperationKind
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
