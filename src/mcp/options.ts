import type { Implementation } from '@modelcontextprotocol/server'
import {
  checkBoolean,
  checkKnownOptions,
  checkWholeNumber,
  invalidOption,
  isOptionsObject,
} from '../oauth/option-checks.ts'
import { checkAllowedHosts, checkAllowedOrigins } from './origin-policy.ts'

/** Options of the adapter beyond router and OAuth. */
export interface McpAdapterOptions {
  /**
   * Origins that may call: a list, or `'*'`. Replaces the default rule: loopback origins for a loopback
   * host; elsewhere every origin when OAuth is on, else the server's own.
   */
  readonly allowedOrigins?: readonly string[] | '*' | undefined
  /** Host names, without port, that may stand in `Host`. Default: loopback names where the server listens on loopback. */
  readonly allowedHosts?: readonly string[] | undefined
  /** Leaves out of `tools/list` what the token may not call. Default false. */
  readonly listOnlyPermitted?: boolean | undefined
  /** Largest body in bytes. Default 4 MiB. */
  readonly maxBodyBytes?: number | undefined
  /** Milliseconds within which a body must have arrived. Default 30 000. */
  readonly bodyTimeoutMs?: number | undefined
}

/** `McpAdapterOptions`, checked and with their defaults. */
export interface ResolvedAdapterOptions {
  readonly allowedOrigins: '*' | ReadonlySet<string> | undefined
  readonly allowedHosts: ReadonlySet<string> | undefined
  readonly listOnlyPermitted: boolean
  readonly maxBodyBytes: number
  readonly bodyTimeoutMs: number
}

export const ADAPTER_OPTIONS: readonly (keyof McpAdapterOptions)[] = [
  'allowedOrigins',
  'allowedHosts',
  'listOnlyPermitted',
  'maxBodyBytes',
  'bodyTimeoutMs',
]

/** @throws {KitMcpConfigError} naming the option. */
export function resolveAdapterOptions(options: McpAdapterOptions): ResolvedAdapterOptions {
  if (!isOptionsObject(options)) throw invalidOption('options', 'must be an object')
  checkKnownOptions('the adapter', options, ADAPTER_OPTIONS)
  const { allowedOrigins, allowedHosts, listOnlyPermitted, maxBodyBytes, bodyTimeoutMs } = options
  return {
    allowedOrigins: allowedOrigins === undefined ? undefined : checkAllowedOrigins(allowedOrigins),
    allowedHosts: allowedHosts === undefined ? undefined : checkAllowedHosts(allowedHosts),
    listOnlyPermitted:
      listOnlyPermitted === undefined ? false : checkBoolean('listOnlyPermitted', listOnlyPermitted),
    maxBodyBytes:
      maxBodyBytes === undefined ? 4 * 1024 * 1024 : checkWholeNumber('maxBodyBytes', maxBodyBytes, 1),
    bodyTimeoutMs: bodyTimeoutMs === undefined ? 30_000 : checkWholeNumber('bodyTimeoutMs', bodyTimeoutMs, 1),
  }
}

/** Who the server says it is. */
export type ServerInfo = Implementation

/** @throws {KitMcpConfigError} when name or version are missing. */
export function checkServerInfo(info: unknown): ServerInfo {
  if (!isOptionsObject(info))
    throw invalidOption('serverInfo', `must be an object such as { name: 'notes', version: '1.0.0' }`)
  checkKnownOptions('serverInfo', info, ['name', 'version', 'title', 'description', 'websiteUrl', 'icons'])
  const { name, version } = info as { name?: unknown; version?: unknown }
  for (const [member, value] of Object.entries({ name, version })) {
    if (typeof value !== 'string' || value === '')
      throw invalidOption(`serverInfo.${member}`, 'must be a non-empty string')
  }
  return Object.freeze({ ...(info as ServerInfo) })
}
