import { type KitMcpAdapter, type McpAdapter, serviceOf } from '../mcp/server.ts'
import type { McpService } from '../mcp/service.ts'
import { KitMcpConfigError } from '../oauth/errors.ts'
import { Gate } from '../oauth/gate.ts'
import { RequestContext } from '../oauth/inputs.ts'
import { missingOption } from '../oauth/option-checks.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../oauth/options.ts'

/** OAuth options, or what `KitMcpServer…build()` or `createMcpAdapter()` returned. */
export type GateTarget = OAuthOptions | KitMcpAdapter | McpAdapter

export interface ResolvedTarget {
  readonly gate: Gate
  /** The MCP service, where the target is an adapter. */
  readonly service: McpService | undefined
}

/** Gates made from plain options, by the options object, so that the router can tell the middleware where it is. */
const announced = new WeakMap<object, Set<Gate>>()
const routed = new WeakSet<object>()

/** @throws {KitMcpConfigError} for an adapter without OAuth, and for wrong options. */
export function resolveTarget(target: GateTarget): ResolvedTarget {
  const service = serviceOf(target)
  if (service !== undefined) {
    if (service.gate === undefined) {
      throw missingOption(
        'oauth',
        'this adapter was built without OAuth: build it with withOAuth({ … }) or oauth: { … }',
      )
    }
    return { gate: service.gate, service }
  }
  refuseUnknownAdapter(target)
  const gate = new Gate(resolveOAuthOptions(target), [], (request) => new RequestContext(request, {}))
  const gates = announced.get(target) ?? new Set()
  announced.set(target, gates.add(gate))
  if (routed.has(target)) gate.announceSuffixedMetadata()
  return { gate, service: undefined }
}

/** Every gate of this target names the path-suffixed metadata document from now on. */
export function announceSuffixedMetadata(target: GateTarget): void {
  routed.add(target)
  serviceOf(target)?.gate?.announceSuffixedMetadata()
  for (const gate of announced.get(target) ?? []) gate.announceSuffixedMetadata()
}

function refuseUnknownAdapter(target: unknown): void {
  if (typeof target !== 'object' || target === null || !('auth' in target)) return
  throw new KitMcpConfigError(
    'MCP_CONFIG_INVALID_OPTION',
    'target',
    'target looks like an adapter but is a copy of one: pass the very object that build() or createMcpAdapter() returned',
  )
}
