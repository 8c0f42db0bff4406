import type { CacheHint, Implementation, ServerEventBus } from '@modelcontextprotocol/server'
import { DEFAULT_BODY_LIMITS } from '../base/http/body-reader.ts'
import { type OptionChecks, optionChecksOf } from '../base/options/option-checks.ts'
import { optional, orEmpty, type ReadBy, type RulesFor, unchecked } from '../base/options/option-rules.ts'
import type { DpopReplayStore } from '../oauth/dpop/replay-store.ts'
import { type McpEventOptions, resolveEventOptions } from './events/event-options.ts'
import type { Policy } from './operations/policy.ts'
import { checkToolsets } from './operations/toolsets.ts'
import type { Authorize } from './router/authorize.ts'
import { objectCopy } from './router/definition.ts'
import { checkLimits, type McpLimits } from './router/limits.ts'
import { checkOperationScopes, type OperationScopes } from './router/operation-scopes.ts'
import { checkCache } from './router/resource.ts'
import { UNKNOWN_ARGUMENTS } from './router/schemas/closed-inputs.ts'
import type { McpSessionOptions, ResolvedSessionOptions } from './sdk/sessions/sessions.ts'
import { type McpTaskOptions, resolveTaskOptions } from './tasks/task-options.ts'
import { originRules } from './wire/origin-policy.ts'

const checks = optionChecksOf('createMcpAdapter')
const {
  callable,
  checkBoolean,
  checkTexts,
  invalidKind,
  members,
  oneOf,
  readOptions,
  wholeNumber,
  withFunctions,
} = checks

/** The maximum number of event streams that are open at the same time. */
export interface McpStreamOptions {
  /** The maximum number of streams of all users together. A further one gets a 503. Defaults to 1024. */
  readonly max?: number | undefined
  /**
   * The maximum number of streams of one user. A further one gets a 429. If OAuth is disabled, streams are counted by client
   * address. Defaults to 32.
   */
  readonly maxPerOwner?: number | undefined
}

/** The memory of answers to `confirm` of tools that were used up. */
export interface McpConfirmationOptions {
  /**
   * The place in which used answers are kept, so that an answer is good for one call across all nodes: `redisReplayStore()`, or a
   * store of your own. While it is away, answers are refused. Defaults to the memory of this process.
   */
  readonly store?: DpopReplayStore | undefined
}

/** The adapter options: all options of an adapter except the router, OAuth, server info, instructions, and telemetry. */
export interface McpAdapterOptions<App = any, User = any> {
  /**
   * Enables sessions for clients of the 2025 revisions: `Mcp-Session-Id`, streams that can be resumed, and DELETE. Clients of
   * 2026-07-28 do not have sessions. Defaults to `false`: any node can serve any request.
   */
  readonly sessions?: boolean | McpSessionOptions | undefined
  /**
   * The maximum number of event streams that are open at the same time: GET streams of the 2025 revisions, and
   * `subscriptions/listen` of 2026-07-28. Defaults to `{ max: 1024, maxPerOwner: 32 }`.
   */
  readonly streams?: McpStreamOptions | undefined
  /**
   * The origins that may send requests: a list, or `'*'`. By default, a loopback host permits only loopback origins. Any other
   * host permits every origin if OAuth is enabled, and otherwise only its own origin.
   */
  readonly allowedOrigins?: readonly string[] | '*' | undefined
  /**
   * The host names, without port, that are allowed in `Host`. By default, a server that listens on a loopback address allows
   * only loopback names, and any other server allows all.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /** Leaves the operations out of lists that the token may not use. Requires a `KitMcpRouter`. Defaults to `false`. */
  readonly listOnlyPermitted?: boolean | undefined
  /**
   * The names of tools by toolset: `{ read: ['list_notes', 'read_note'], admin: ['wipe'] }`. A client that sends the header
   * `X-MCP-Toolsets: read` lists only the tools of this set, so that the others take no room in the context of its model. Several
   * names are separated by commas, and unknown ones are ignored. Without the header, or with `all`, every tool is listed. It does
   * not limit calls: use `scopes`. Requires a `KitMcpRouter`. None by default.
   * @see docs/reference/mcp.md
   */
  readonly toolsets?: Readonly<Record<string, readonly string[]>> | undefined
  /**
   * The treatment of members of a tool's arguments that its schema does not name. `'reject'` makes them invalid, and lists the
   * tools with `additionalProperties: false`. A schema that decides about such members itself, as `z.looseObject()` does, stays
   * as it is. Requires a `KitMcpRouter`. Defaults to `'ignore'`: the schema's library decides, and most remove them.
   */
  readonly unknownArguments?: 'ignore' | 'reject' | undefined
  /** The maximum size of a body, in bytes. Defaults to 4 194 304 (4 MiB). */
  readonly maxBodyBytes?: number | undefined
  /** The time in which a body must arrive, in milliseconds. Defaults to 30 000 ms. */
  readonly bodyTimeoutMs?: number | undefined
  /**
   * The time for which clients of 2026-07-28 may cache lists and resources, and whether shared caches may keep them. Results
   * that depend on the token are always `private`. Defaults to `{ ttlMs: 0, cacheScope: 'private' }`.
   */
  readonly cache?: CacheHint | undefined
  /**
   * The secret that encrypts the state between the rounds of a call (`context.inputRequired`): at least 32 characters or bytes.
   * Set the same secret on all nodes; otherwise a node rejects the state of another node. Defaults to a random secret for each
   * process.
   */
  readonly requestStateSecret?: string | Uint8Array | undefined
  /**
   * Carries `notify` between nodes, such as `redisEventBus()` or another implementation of the SDK's interface. By default,
   * only the clients of this process are notified.
   */
  readonly eventBus?: ServerEventBus | undefined
  /** The scopes by operation if `router` is a function. A `KitMcpRouter` defines the scopes itself. */
  readonly scopes?: OperationScopes | undefined
  /**
   * Records the arguments and results of tools in the tool events and on the spans (`gen_ai.tool.call.arguments`,
   * `gen_ai.tool.call.result`), with the redaction of the telemetry manager. Defaults to `false`.
   */
  readonly recordPayloads?: boolean | undefined
  /**
   * Records the IP address of the client on the spans (`client.address`): `req.ip` of Express, or else the address of the
   * socket. A web-standard request has none. Defaults to `false`.
   */
  readonly recordClientAddress?: boolean | undefined
  /**
   * Records a span for each message, if a tracer provider is registered. `false` if another instrumentation, such as Sentry, records
   * one: handlers then run in the trace of the HTTP span or, without one, of the caller. Metrics and events do not change. Defaults
   * to `true`.
   * @see docs/guides/mcp-telemetry.md
   */
  readonly recordSpans?: boolean | undefined
  /**
   * Further values of `clientInfo.name` that metrics have as `mcp.client.name`, compared exactly. The names of common clients
   * are known without it; all others are `_OTHER` in metrics. Events and spans have every name. None by default.
   */
  readonly knownClients?: readonly string[] | undefined
  /**
   * Decides about each tool call, prompt get, and resource read, after scopes and validation, and about each entry of a list.
   * Only `true` permits the operation. Requires a `KitMcpRouter`. By default, scopes decide.
   * @see docs/guides/policy.md
   */
  readonly authorize?: Authorize<App, User> | undefined
  /** The time in which `authorize` must decide, in milliseconds. A later decision denies. Defaults to 5 000 ms. */
  readonly authorizeTimeoutMs?: number | undefined
  /**
   * Limits for tool calls: their number, those in progress, their time, and the size of their results. Requires a
   * `KitMcpRouter`. A tool can have further limits of its own. Unlimited by default.
   * @see docs/guides/limits.md
   */
  readonly limits?: McpLimits | undefined
  /**
   * The store and the limits of tasks, for a `KitMcpRouter` with tools that have the option `task`. By default, tasks are kept
   * in the memory of this process.
   * @see docs/guides/tasks.md
   */
  readonly tasks?: McpTaskOptions | undefined
  /**
   * The store of answers to `confirm` of tools, which nodes share. Requires a `KitMcpRouter`. By default, each process has its own.
   * @see docs/guides/confirmations.md
   */
  readonly confirmations?: McpConfirmationOptions | undefined
  /**
   * The store and the limits of events, for a `KitMcpRouter` with event types. By default, subscriptions and events are kept in the
   * memory of this process.
   * @see docs/guides/events.md
   */
  readonly events?: McpEventOptions | undefined
}

const SESSION_RULES = {
  idleTimeoutMs: optional(wholeNumber(1), 1_800_000),
  max: optional(wholeNumber(1), 1_000),
  maxPerOwner: optional(wholeNumber(1)),
  maxBufferedBytes: optional(wholeNumber(1), 1024 * 1024),
} satisfies RulesFor<McpSessionOptions>

const STREAM_RULES = {
  max: optional(wholeNumber(1), 1024),
  maxPerOwner: optional(wholeNumber(1), 32),
} satisfies RulesFor<McpStreamOptions>

const CONFIRMATION_RULES = {
  store: optional(
    withFunctions<DpopReplayStore>(
      'must be an object with a method use(key, expiresAtSeconds), such as redisReplayStore(client)',
      ['use'],
      'use redisReplayStore(client), or a store of your own',
    ),
  ),
} satisfies RulesFor<McpConfirmationOptions>

export const ADAPTER_RULES = {
  sessions: checkSessions,
  streams: orEmpty(members('must be an object such as { max: 1024, maxPerOwner: 32 }', STREAM_RULES)),
  ...originRules(checks),
  listOnlyPermitted: optional(checkBoolean, false),
  toolsets: optional((option, value) => checkToolsets(option, value, checks)),
  unknownArguments: optional(oneOf(UNKNOWN_ARGUMENTS), 'ignore'),
  maxBodyBytes: optional(wholeNumber(1), DEFAULT_BODY_LIMITS.maxBytes),
  bodyTimeoutMs: optional(wholeNumber(1), DEFAULT_BODY_LIMITS.timeoutMs),
  cache: (option: string, value: unknown) => checkCache(option, value, checks),
  requestStateSecret: optional(checkSecret),
  eventBus: optional(
    withFunctions<ServerEventBus>(
      'must be an object with publish(event) and subscribe(listener)',
      ['publish', 'subscribe'],
      'use redisEventBus(client), or a bus of your own',
    ),
  ),
  scopes: optional((_option, value) => checkOperationScopes(checks, value, true)),
  recordPayloads: optional(checkBoolean, false),
  recordClientAddress: optional(checkBoolean, false),
  recordSpans: optional(checkBoolean, true),
  knownClients: optional(checkTexts, []),
  authorize: optional(callable<Authorize<any>>('set it to a function (query) => true or false')),
  authorizeTimeoutMs: optional(wholeNumber(1), 5_000),
  limits: optional((_option, value) => checkLimits(checks, value)),
  tasks: optional((_option, value) => resolveTaskOptions(value)),
  confirmations: optional(
    members('must be an object such as { store: redisReplayStore(client) }', CONFIRMATION_RULES),
  ),
  events: optional((_option, value) => resolveEventOptions(value)),
} satisfies RulesFor<McpAdapterOptions>

/** `McpAdapterOptions`, validated and with defaults. `tasks` and `events` are undefined if the option is not set. */
export interface ResolvedAdapterOptions extends ReadBy<typeof ADAPTER_RULES> {
  /** The policy of the adapter and of its tools. The endpoint sets it, because only the router knows the tools. */
  readonly policy?: Policy | undefined
}

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveAdapterOptions(options: McpAdapterOptions): ResolvedAdapterOptions {
  return readOptions('the adapter', 'must be an object', options, ADAPTER_RULES, 'options')
}

function checkSessions(option: string, sessions: unknown): ResolvedSessionOptions | undefined {
  if (sessions === undefined || sessions === false) return undefined
  const expected = 'must be true, false, or an object such as { idleTimeoutMs: 600000, max: 100 }'
  const read = members(expected, SESSION_RULES)(option, sessions === true ? {} : sessions, {})
  return { ...read, maxPerOwner: read.maxPerOwner ?? Math.max(10, Math.floor(read.max / 10)) }
}

const MIN_SECRET = 32

function checkSecret(option: string, secret: unknown): string | Uint8Array {
  const usable = typeof secret === 'string' || secret instanceof Uint8Array
  if (!usable || secret.length < MIN_SECRET) {
    throw invalidKind(option, `must be at least ${MIN_SECRET} random characters or bytes`, secret)
  }
  return typeof secret === 'string' ? secret : Uint8Array.from(secret)
}

/** The name and version of the server, and optional details for people. */
export type ServerInfo = Implementation

/** @throws {KitMcpConfigError} if the name or the version is missing, or a member is invalid. */
export function checkServerInfo(info: unknown, of: OptionChecks = checks): ServerInfo {
  const rules = {
    name: of.text,
    version: of.text,
    title: optional(of.checkString),
    description: optional(of.checkString),
    websiteUrl: optional(of.checkString),
    icons: optional(of.items(`must be an array such as [{ src: 'https://…' }]`, unchecked())),
  } satisfies RulesFor<ServerInfo>
  of.members(`must be an object such as { name: 'notes', version: '1.0.0' }`, rules)('serverInfo', info, {})
  return objectCopy('serverInfo', info as ServerInfo)
}
