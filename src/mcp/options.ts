import type { CacheHint, Implementation, ServerEventBus } from '@modelcontextprotocol/server'
import { DEFAULT_BODY_LIMITS } from '../http/body-reader.ts'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../options/option-checks.ts'
import { MAX_TIMER_MS } from '../timers.ts'
import { type Authorize, Policy } from './operations/policy.ts'
import { objectCopy } from './router/definition.ts'
import { checkLimits, type McpLimits } from './router/limits.ts'
import {
  checkOperationScopes,
  type OperationScopes,
  type ScopedOperations,
} from './router/operation-scopes.ts'
import { checkCache } from './router/resource.ts'
import type { McpSessionOptions, ResolvedSessionOptions } from './sdk/sessions/sessions.ts'
import type { SlotLimits } from './sdk/streams/owner-slots.ts'
import { type McpTaskOptions, type ResolvedTaskOptions, resolveTaskOptions } from './tasks/task-options.ts'
import { checkAllowedHosts, checkAllowedOrigins } from './wire/origin-policy.ts'

const checks = optionChecksOf('createMcpAdapter')
const {
  checkBoolean,
  checkFunction,
  checkKnownMembers,
  checkKnownOptions,
  checkWholeNumber,
  invalidKind,
  invalidOption,
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
}

/** `McpAdapterOptions`, validated and with defaults. */
export interface ResolvedAdapterOptions {
  readonly sessions: ResolvedSessionOptions | undefined
  readonly streams: SlotLimits
  readonly allowedOrigins: '*' | ReadonlySet<string> | undefined
  readonly allowedHosts: ReadonlySet<string> | undefined
  readonly listOnlyPermitted: boolean
  readonly maxBodyBytes: number
  readonly bodyTimeoutMs: number
  readonly cache: CacheHint
  readonly requestStateSecret: string | Uint8Array | undefined
  readonly eventBus: ServerEventBus | undefined
  readonly scopes: ScopedOperations | undefined
  readonly recordPayloads: boolean
  readonly recordClientAddress: boolean
  readonly policy: Policy | undefined
  readonly limits: McpLimits | undefined
  /** Undefined if the option is not set. */
  readonly tasks: ResolvedTaskOptions | undefined
}

export const ADAPTER_OPTIONS: readonly (keyof McpAdapterOptions)[] = [
  'sessions',
  'streams',
  'allowedOrigins',
  'allowedHosts',
  'listOnlyPermitted',
  'maxBodyBytes',
  'bodyTimeoutMs',
  'cache',
  'requestStateSecret',
  'eventBus',
  'scopes',
  'recordPayloads',
  'recordClientAddress',
  'authorize',
  'authorizeTimeoutMs',
  'limits',
  'tasks',
]

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveAdapterOptions(options: McpAdapterOptions): ResolvedAdapterOptions {
  if (!isOptionsObject(options)) throw invalidKind('options', 'must be an object', options)
  checkKnownOptions('the adapter', options, ADAPTER_OPTIONS)
  const { allowedOrigins, allowedHosts, listOnlyPermitted, maxBodyBytes, bodyTimeoutMs } = options
  const { sessions, streams, cache, requestStateSecret, eventBus, scopes, recordPayloads } = options
  const { authorize, authorizeTimeoutMs, limits, recordClientAddress, tasks } = options
  return {
    sessions: checkSessions(sessions),
    streams: checkStreams(streams),
    allowedOrigins: allowedOrigins === undefined ? undefined : checkAllowedOrigins(checks, allowedOrigins),
    allowedHosts: allowedHosts === undefined ? undefined : checkAllowedHosts(checks, allowedHosts),
    listOnlyPermitted:
      listOnlyPermitted === undefined ? false : checkBoolean('listOnlyPermitted', listOnlyPermitted),
    maxBodyBytes:
      maxBodyBytes === undefined
        ? DEFAULT_BODY_LIMITS.maxBytes
        : checkWholeNumber('maxBodyBytes', maxBodyBytes, 1),
    bodyTimeoutMs:
      bodyTimeoutMs === undefined
        ? DEFAULT_BODY_LIMITS.timeoutMs
        : checkWholeNumber('bodyTimeoutMs', bodyTimeoutMs, 1),
    cache: checkCache('cache', cache, checks),
    requestStateSecret: requestStateSecret === undefined ? undefined : checkSecret(requestStateSecret),
    eventBus: eventBus === undefined ? undefined : checkEventBus(eventBus),
    scopes: scopes === undefined ? undefined : checkOperationScopes(scopes),
    recordPayloads: recordPayloads === undefined ? false : checkBoolean('recordPayloads', recordPayloads),
    recordClientAddress:
      recordClientAddress === undefined ? false : checkBoolean('recordClientAddress', recordClientAddress),
    policy: checkPolicy(authorize, authorizeTimeoutMs),
    limits: limits === undefined ? undefined : checkLimits(checks, limits),
    tasks: tasks === undefined ? undefined : resolveTaskOptions(tasks),
  }
}

function checkPolicy(authorize: unknown, timeoutMs: unknown): Policy | undefined {
  const ms = timeoutMs === undefined ? 5_000 : checkWholeNumber('authorizeTimeoutMs', timeoutMs, 1)
  if (ms > MAX_TIMER_MS)
    throw invalidOption('authorizeTimeoutMs', `must be at most ${MAX_TIMER_MS} milliseconds`, timeoutMs)
  if (authorize === undefined) return undefined
  checkFunction('authorize', authorize, 'set it to a function (query) => true or false')
  return new Policy(authorize as Authorize<any>, ms)
}

function checkSessions(sessions: unknown): ResolvedSessionOptions | undefined {
  if (sessions === undefined || sessions === false) return undefined
  const given = sessions === true ? {} : sessions
  if (!isOptionsObject(given)) {
    throw invalidKind(
      'sessions',
      'must be true, false, or an object such as { idleTimeoutMs: 600000, max: 100 }',
      sessions,
    )
  }
  checkKnownMembers('sessions', given, ['idleTimeoutMs', 'max', 'maxPerOwner', 'maxBufferedBytes'])
  const { idleTimeoutMs = 1_800_000, max = 1000, ...rest } = given as McpSessionOptions
  if (checkWholeNumber('sessions.idleTimeoutMs', idleTimeoutMs, 1) > MAX_TIMER_MS)
    throw invalidOption(
      'sessions.idleTimeoutMs',
      `must be at most ${MAX_TIMER_MS} milliseconds`,
      idleTimeoutMs,
    )
  checkWholeNumber('sessions.max', max, 1)
  const { maxPerOwner = Math.max(10, Math.floor(max / 10)), maxBufferedBytes = 1024 * 1024 } = rest
  return {
    idleTimeoutMs,
    max,
    maxPerOwner: checkWholeNumber('sessions.maxPerOwner', maxPerOwner, 1),
    maxBufferedBytes: checkWholeNumber('sessions.maxBufferedBytes', maxBufferedBytes, 1),
  }
}

function checkStreams(streams: unknown): SlotLimits {
  const given = streams === undefined ? {} : streams
  if (!isOptionsObject(given))
    throw invalidKind('streams', 'must be an object such as { max: 1024, maxPerOwner: 32 }', streams)
  checkKnownMembers('streams', given, ['max', 'maxPerOwner'])
  const { max = 1024, maxPerOwner = 32 } = given as McpStreamOptions
  return {
    max: checkWholeNumber('streams.max', max, 1),
    maxPerOwner: checkWholeNumber('streams.maxPerOwner', maxPerOwner, 1),
  }
}

const MIN_SECRET = 32

function checkSecret(secret: unknown): string | Uint8Array {
  const usable = typeof secret === 'string' || secret instanceof Uint8Array
  if (!usable || secret.length < MIN_SECRET) {
    throw invalidKind(
      'requestStateSecret',
      `must be at least ${MIN_SECRET} random characters or bytes`,
      secret,
    )
  }
  return typeof secret === 'string' ? secret : Uint8Array.from(secret)
}

function checkEventBus(bus: unknown): ServerEventBus {
  const { publish, subscribe } = (bus ?? {}) as Partial<Record<keyof ServerEventBus, unknown>>
  if (typeof publish !== 'function' || typeof subscribe !== 'function') {
    throw invalidKind('eventBus', 'must be an object with publish(event) and subscribe(listener)', bus)
  }
  return bus as ServerEventBus
}

/** The name and version of the server, and optional details for people. */
export type ServerInfo = Implementation

/** @throws {KitMcpConfigError} if the name or the version is missing, or a member is invalid. */
export function checkServerInfo(info: unknown, of: OptionChecks = checks): ServerInfo {
  if (!isOptionsObject(info))
    throw of.invalidKind('serverInfo', `must be an object such as { name: 'notes', version: '1.0.0' }`, info)
  of.checkKnownMembers('serverInfo', info, ['name', 'version', 'title', 'description', 'websiteUrl', 'icons'])
  const { name, version } = info as { name?: unknown; version?: unknown }
  for (const [member, value] of Object.entries({ name, version })) {
    if (typeof value !== 'string' || value === '')
      throw of.invalidOption(`serverInfo.${member}`, 'must be a non-empty string', value)
  }
  const { title, description, websiteUrl, icons } = info as Partial<Record<keyof ServerInfo, unknown>>
  for (const [member, value] of Object.entries({ title, description, websiteUrl }))
    if (value !== undefined) of.checkString(`serverInfo.${member}`, value)
  if (icons !== undefined && !Array.isArray(icons))
    throw of.invalidKind('serverInfo.icons', `must be an array such as [{ src: 'https://…' }]`, icons)
  return objectCopy('serverInfo', info as ServerInfo)
}
