import { isRecord } from '../../base/options/value-kinds.ts'
import { unionOfScopes } from '../../oauth/scope.ts'
import { methodNamed } from '../methods.ts'
import type { OperationKind } from '../router/middleware.ts'
import { findResource, type RouterTable } from '../router/router-table.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import type { Exchange, Verdict } from '../wire/exchange.ts'
import { DENIED_TEXTS, validArguments } from './operation.ts'
import { type Policy, recordDenial } from './policy.ts'

/** A call of an operation that exists. */
interface KnownCall {
  readonly id: string | number
  readonly method: string
  readonly params: object
  readonly kind: OperationKind
  readonly name: string
  readonly uri?: string
  /** The entry of the router's table. */
  readonly operation: object
  /** Validates the arguments. */
  readonly validate: () => unknown
}

/**
 * Validates the arguments of the calls in these messages, asks the policy about each, and keeps the verdicts for the handlers.
 * The policy is not asked about calls that are invalid, or that name operations which do not exist.
 * @returns the scopes that denials ask for. If there are any, the request must be refused.
 */
export async function authorizeCalls(
  policy: Policy,
  table: RouterTable,
  exchange: Exchange,
  messages: readonly unknown[],
): Promise<readonly string[]> {
  const known = messages.flatMap((message) => knownCall(table, message) ?? [])
  if (known.length === 0) return []
  const verdicts = await Promise.all(
    known.map(async (call) => ({ id: call.id, ...(await verdictOf(policy, exchange, call)) })),
  )
  exchange.verdicts = new Map(verdicts.map((verdict) => [verdict.id, verdict]))
  return unionOfScopes(...verdicts.map(({ scopes }) => scopes))
}

async function verdictOf(
  policy: Policy,
  exchange: Exchange,
  { id, method, params, kind, name, uri, operation, validate }: KnownCall,
): Promise<Verdict & { readonly scopes: readonly string[] }> {
  let args: unknown
  try {
    args = await validate()
  } catch (thrown) {
    return { operation, failure: { thrown }, scopes: [] }
  }
  const denied = await policy.denial(exchange, {
    purpose: 'call',
    kind,
    name,
    ...(uri !== undefined && { uri }),
    args: args as Readonly<Record<string, unknown>>,
  })
  if (denied === undefined) return { operation, args, scopes: [] }
  recordDenial(exchange, { method, params, id }, denied)
  return { operation, denied: denied.text ?? DENIED_TEXTS[kind], scopes: denied.scopes }
}

/** Returns the call of a message. Returns undefined if the SDK rejects the message, or if the operation does not exist. */
function knownCall(table: RouterTable, message: unknown): KnownCall | undefined {
  if (!isRecord(message)) return undefined
  const { id, method, params } = message
  const { hasPolicy, names } = methodNamed(method) ?? {}
  if (hasPolicy !== true || (typeof id !== 'string' && typeof id !== 'number') || !isRecord(params))
    return undefined
  const call = { id, method: method as string, params }
  if (names === 'tool' || names === 'prompt') {
    const { name, arguments: given = {} } = params
    if (typeof name !== 'string' || !isRecord(given)) return undefined
    if (names === 'prompt' && !Object.values(given).every((value) => typeof value === 'string'))
      return undefined
    const operation = (names === 'tool' ? table.tools : table.prompts).get(name)
    return (
      operation && {
        ...call,
        kind: names,
        name,
        operation,
        validate: () => validArguments(names, operation, given),
      }
    )
  }
  const uri = typeof params.uri === 'string' ? canonicalUri(params.uri) : undefined
  if (uri === undefined) return undefined
  const parts = names === 'skill' ? table.skills : table.directories
  const found =
    names === 'resource' ? findResource(table, uri) : { entry: parts.get(uri), variables: undefined }
  const { entry: operation, variables = {} } = found ?? {}
  if (operation === undefined) return undefined
  const { name } = operation.definition
  return { ...call, kind: 'resource', name, uri, operation, validate: () => variables }
}
