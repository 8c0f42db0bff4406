import type { Authorize, PolicyDecision, PolicyQuery } from '../mcp/router/authorize.ts'
import { isRecord } from '../options/value-kinds.ts'
import { DecisionPoint } from './decision-point.ts'
import type { AuthZenEvaluation } from './evaluation.ts'
import { type AuthZenOptions, resolveAuthZenOptions } from './options.ts'

/**
 * Creates a function for the adapter option `authorize` that asks a policy decision point of OpenID AuthZEN 1.0, such as
 * Cerbos, OpenFGA, or Topaz. Each call is one request to `/access/v1/evaluation`, and each list is one request to
 * `/access/v1/evaluations`.
 *
 * Everything but the decision `true` denies: an error, a timeout, a redirect, and a response that is not valid. The access
 * token is never sent. Requests are not repeated.
 * @param options the decision point, the credentials for it, and the mapping of operations to questions.
 * @returns a function for `authorize`. It rejects if the decision point does not decide.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { createMcpAdapter, jwtVerifier, KitMcpRouter } from 'mcp-gatekit'
 * import { authzen } from 'mcp-gatekit/policy'
 *
 * const router = KitMcpRouter.create().tool('ping', { description: 'Replies with pong' }, () => 'pong')
 *
 * export const { server, auth } = createMcpAdapter({
 *   router,
 *   oauth: {
 *     issuer: 'https://auth.example.com',
 *     resource: 'https://mcp.example.com/mcp',
 *     verifyToken: jwtVerifier(),
 *   },
 *   authorize: authzen({
 *     url: 'https://pdp.example.com',
 *     headers: { authorization: `Bearer ${process.env.PDP_TOKEN}` },
 *   }),
 * })
 * ```
 * @see https://openid.net/specs/authorization-api-1_0.html
 */
export function authzen<App = any, User = any>(options: AuthZenOptions<App, User>): Authorize<App, User> {
  const { mapping, ...resolved } = resolveAuthZenOptions(options)
  const point = new DecisionPoint(resolved)
  /** The queries of a list that have been made in this turn of the event loop, by request. */
  const lists = new Map<Request, ListedQuery[]>()

  function listed(query: PolicyQuery<App, User>): Promise<PolicyDecision> {
    return new Promise((resolve, reject) => {
      const entry: ListedQuery = { query, resolve, reject }
      const { request } = query
      const pending = lists.get(request)
      if (pending !== undefined) {
        pending.push(entry)
        return
      }
      const entries = [entry]
      lists.set(request, entries)
      setImmediate(() => {
        lists.delete(request)
        void decideList(entries)
      })
    })
  }

  /** Settles every entry, and never rejects. */
  async function decideList(entries: readonly ListedQuery[]): Promise<void> {
    const mapped = await Promise.all(
      entries.map(async ({ query, resolve, reject }) => {
        try {
          const parts = partsOf(await mapping(query))
          return { parts, token: query.auth?.token, resolve, reject }
        } catch (error) {
          reject(error)
          return undefined
        }
      }),
    )
    const asked = mapped.filter((entry) => entry !== undefined)
    if (asked.length === 0) return
    try {
      const body = evaluationsOf(asked.map(({ parts }) => parts))
      for (const token of new Set(asked.map(({ token }) => token))) checkWithoutToken(body, token)
      const decisions = await point.evaluateAll(body, asked.length)
      for (const [index, { resolve, reject }] of asked.entries()) {
        try {
          resolve(decisions[index]?.() ?? false)
        } catch (error) {
          reject(error)
        }
      }
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  async function called(query: PolicyQuery<App, User>): Promise<PolicyDecision> {
    const parts = partsOf(await mapping(query))
    const body = `{${joined(parts, PARTS)}}`
    checkWithoutToken(body, query.auth?.token)
    return await point.evaluate(body)
  }

  return (query) => (query.purpose === 'list' ? listed(query) : called(query))
}

/** A query about an entry of a list that waits for its decision. */
interface ListedQuery {
  readonly query: PolicyQuery
  readonly resolve: (decision: PolicyDecision) => void
  readonly reject: (error: unknown) => void
}

const PARTS = ['subject', 'action', 'resource', 'context'] as const

type Part = (typeof PARTS)[number]

/** The parts that the evaluations of a list may share. */
const SHARED: readonly Part[] = ['subject', 'action', 'context']

/** The parts of an evaluation, each as JSON. */
type JsonParts = Readonly<Record<Part, string | undefined>>

/** @throws {TypeError} if the mapping returned something else than an evaluation. */
function partsOf(evaluation: AuthZenEvaluation): JsonParts {
  const { subject, action, resource, context } = (isRecord(evaluation) ? evaluation : {}) as AuthZenEvaluation
  if (
    !isEntity(subject, ['type', 'id']) ||
    !isEntity(resource, ['type', 'id']) ||
    !isEntity(action, ['name'])
  )
    throw new TypeError(
      'The mapping of authzen must return { subject: { type, id }, action: { name }, resource: { type, id } } with non-empty strings',
    )
  if (context !== undefined && !isRecord(context))
    throw new TypeError('The mapping of authzen must return an object as context, or no context')
  return {
    subject: JSON.stringify(subject),
    action: JSON.stringify(action),
    resource: JSON.stringify(resource),
    context: context && JSON.stringify(context),
  }
}

function isEntity(value: unknown, members: readonly string[]): boolean {
  if (!isRecord(value)) return false
  const { properties } = value
  return (
    members.every((member) => typeof value[member] === 'string' && value[member] !== '') &&
    (properties === undefined || isRecord(properties))
  )
}

/** Returns an Access Evaluations request. Parts that are the same in all evaluations are its defaults. */
function evaluationsOf(evaluations: readonly JsonParts[]): string {
  const [first = {} as JsonParts] = evaluations
  const shared = SHARED.filter(
    (part) =>
      first[part] !== undefined && evaluations.every((evaluation) => evaluation[part] === first[part]),
  )
  const own = PARTS.filter((part) => !shared.includes(part))
  const list = `"evaluations":[${evaluations.map((evaluation) => `{${joined(evaluation, own)}}`).join(',')}]`
  return `{${[...shared.map((part) => member(first, part)), list].join(',')}}`
}

function joined(parts: JsonParts, names: readonly Part[]): string {
  return names
    .filter((part) => parts[part] !== undefined)
    .map((part) => member(parts, part))
    .join(',')
}

function member(parts: JsonParts, part: Part): string {
  return `"${part}":${parts[part]}`
}

/** The minimum length of a token that is searched for. Tokens of tests may be words that occur in any request. */
const MIN_TOKEN = 16

/** @throws {TypeError} if the mapping put the access token into the request. */
function checkWithoutToken(body: string, token: string | undefined): void {
  if (token !== undefined && token.length >= MIN_TOKEN && body.includes(token))
    throw new TypeError('The mapping of authzen must not return the access token')
}
