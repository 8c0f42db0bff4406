import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { checkOperationScopes, type RequiredOperationScopes } from '../mcp/router/operation-scopes.ts'
import { checkTelemetry, type TelemetryOption } from '../mcp/telemetry-option.ts'
import { type OriginPolicyOptions, originRules } from '../mcp/wire/origin-policy.ts'

/** The origins and hosts that may send requests. */
export interface AllowedOriginsOptions {
  /**
   * The origins that may send requests: a list, or `'*'`. Without it, a loopback host permits only loopback origins, and any
   * other host permits every origin.
   */
  readonly allowedOrigins?: readonly string[] | '*' | undefined
  /**
   * The host names, without port, that are allowed in `Host`. Without it, a server that listens on a loopback address allows
   * only loopback names, and any other server allows all.
   */
  readonly allowedHosts?: readonly string[] | undefined
}

/** Options of {@link mcpAuth}. */
export interface McpAuthOptions extends AllowedOriginsOptions {
  /**
   * The telemetry manager that receives the decisions about requests, and their durations. Only for OAuth options: an adapter
   * has its own. By default, no events are emitted, and failures are written to stderr: at most 10 lines a minute for each kind.
   * `false` turns these lines off.
   */
  readonly telemetry?: TelemetryOption | undefined
  /**
   * Records a span for each request, if `telemetry` is a manager and a tracer provider is registered. `false` if another
   * instrumentation, such as Sentry, records one. Only for OAuth options: an adapter has its own. Defaults to `true`.
   */
  readonly recordSpans?: boolean | undefined
  /**
   * The scopes that operations of the server behind the gate need, in addition to those of the endpoint: of tools and prompts by
   * name, of resources by URI or URI template. Only for OAuth options: an adapter has its own. Lists are not filtered. No
   * operation needs scopes by default.
   */
  readonly scopes?: RequiredOperationScopes | undefined
  /**
   * Binds each session of the server behind the gate to the user who has begun it. A request with the `Mcp-Session-Id` of
   * another user gets 404. The gate remembers 10,000 sessions. Only for OAuth options: an adapter binds its own sessions.
   * Defaults to `true`.
   */
  readonly bindSessions?: boolean | undefined
}

const checks = optionChecksOf('mcpAuth')

const RULES = {
  telemetry: optional((_option, value) => checkTelemetry(value as TelemetryOption, checks)),
  recordSpans: optional(checks.checkBoolean, true),
  scopes: optional((_option, value) => checkOperationScopes(checks, value, false)),
  bindSessions: optional(checks.checkBoolean),
  ...originRules(checks),
} satisfies RulesFor<McpAuthOptions>

/** The options that an adapter has itself, with what to do instead. */
const OF_ADAPTERS = {
  telemetry: '. Pass it to createMcpAdapter() or withTelemetry()',
  recordSpans: '. Pass it to createMcpAdapter() or withOptions()',
  bindSessions: ', which binds its sessions itself. Remove it',
}

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveMcpAuthOptions(options: McpAuthOptions, isAdapter: boolean) {
  const expected = 'must be an object such as { telemetry }'
  const read = checks.readOptions('mcpAuth', expected, options, RULES, 'options')
  if (isAdapter) refuseWithAdapter(options)
  return { ...read, bindSessions: read.bindSessions ?? !isAdapter, originPolicy: originPolicyOf(read) }
}

function refuseWithAdapter(options: McpAuthOptions): void {
  for (const [option, advice] of Object.entries(OF_ADAPTERS)) {
    const value = options[option as keyof typeof OF_ADAPTERS]
    if (value !== undefined)
      throw checks.invalidKind(option, `must not be set together with an adapter${advice}`, value)
  }
  const problem = 'must not be set together with an adapter, which checks the scopes of its operations itself'
  if (options.scopes !== undefined) throw checks.unusableOption('scopes', problem, SCOPES_FIX)
}

const SCOPES_FIX =
  'Set scopes of each operation of the KitMcpRouter or, for a router function, the option scopes of createMcpAdapter().'

/** Returns the checks of `Origin` and `Host`; `undefined` if neither option is set. */
export function originPolicyOf(
  allowed: Omit<OriginPolicyOptions, 'hasOAuth'>,
): OriginPolicyOptions | undefined {
  const { allowedOrigins, allowedHosts } = allowed
  const isSet = allowedOrigins !== undefined || allowedHosts !== undefined
  return isSet ? { allowedOrigins, allowedHosts, hasOAuth: true } : undefined
}
