import { type KitMcpAdapter, type McpAdapter, serviceOf } from '../mcp/server.ts'
import type { McpService } from '../mcp/service.ts'
import { Gate, type MetadataAnnouncement } from '../oauth/gate.ts'
import { RequestContext } from '../oauth/inputs.ts'
import { optionChecksOf } from '../oauth/option-checks.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../oauth/options.ts'

const { invalidOption, missingOption } = optionChecksOf('mcpAuth')

/** OAuth options, or what `KitMcpServer…build()` or `createMcpAdapter()` returned. */
export type GateTarget = OAuthOptions | KitMcpAdapter | McpAdapter

export interface ResolvedTarget {
  readonly gate: Gate
  /** The MCP service, where the target is an adapter. */
  readonly service: McpService | undefined
}

/** What gates made from plain options share, by the options object, so that the router can tell the middleware where it is. */
const announcements = new WeakMap<object, MetadataAnnouncement>()

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
  const options = resolveOAuthOptions(target)
  const announced = announcements.get(target) ?? { suffixed: false }
  announcements.set(target, announced)
  const gate = new Gate(options, [], (request) => new RequestContext(request, {}), announced)
  return { gate, service: undefined }
}

function refuseUnknownAdapter(target: unknown): void {
  if (typeof target !== 'object' || target === null || !('auth' in target)) return
  throw invalidOption(
    'target',
    'looks like an adapter but is a copy of one: pass the very object that build() or createMcpAdapter() returned',
  )
}
