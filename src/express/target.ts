import { DEFAULT_BODY_LIMITS } from '../base/http/body-reader.ts'
import { type OptionChecks, optionChecksOf } from '../base/options/option-checks.ts'
import { Authenticator } from '../mcp/authenticator.ts'
import type { McpEndpoint } from '../mcp/endpoint.ts'
import { endpointOf } from '../mcp/endpoint-of.ts'
import { Instrumentation } from '../mcp/instrumentation/instrumentation.ts'
import type { McpAdapter } from '../mcp/mcp-adapter.ts'
import type { ScopedOperations } from '../mcp/router/named-operations.ts'
import { Gate, type GateRequest, type MetadataAnnouncement } from '../oauth/gate.ts'
import { RequestContext } from '../oauth/inputs.ts'
import { ProtectedResource } from '../oauth/metadata/protected-resource.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../oauth/options.ts'
import { unionOfScopes } from '../oauth/scope.ts'

const { invalidOption, missingOption } = optionChecksOf('mcpAuth')

/** OAuth options, or the return value of `createMcpAdapter()` or `KitMcpServer…build()`. */
export type GateTarget = OAuthOptions | McpAdapter

/** Shared by the gates of one options object, so that the challenges of `mcpAuth` name the path that the router serves. */
const announcements = new WeakMap<object, MetadataAnnouncement>()

/**
 * @param instrumentation the telemetry of a gate that is created from OAuth options
 * @param operations the operations that need scopes, for a gate that is created from OAuth options
 * @throws {KitMcpConfigError} if an option is invalid, or the adapter has no OAuth.
 */
export function resolveTarget(
  target: GateTarget,
  instrumentation: Instrumentation = new Instrumentation(false, {}, false),
  operations?: ScopedOperations,
) {
  const endpoint = endpointOf(target)
  if (endpoint !== undefined) {
    const { gate, authenticator } = endpoint
    if (gate !== undefined) return { gate, authenticator, resource: () => gate.resource }
    throw missingOption('oauth', 'the adapter has no OAuth. Create it with withOAuth({ … }) or oauth: { … }')
  }
  const copy = 'must not be a copy of an adapter. Pass the object that build() or createMcpAdapter() returned'
  if ('auth' in Object(target)) throw invalidOption('target', copy)
  const options = resolveOAuthOptions(target)
  const announced = announcements.get(target) ?? { suffixed: false }
  if (operations !== undefined)
    announced.operationScopes = unionOfScopes(announced.operationScopes ?? [], operations.scopes)
  announcements.set(target, announced)
  const makeContext = (request: GateRequest) => new RequestContext(request, {})
  const gate = new Gate(options, operations?.scopes ?? [], makeContext, announced)
  let { resource } = gate
  let named = operations?.scopes
  const bodyLimits = DEFAULT_BODY_LIMITS
  return {
    gate,
    authenticator: new Authenticator({ gate, makeContext, operations, instrumentation, bodyLimits }),
    /** Returns the metadata document, with the scopes that the gates of the target require until now. */
    resource() {
      if (named !== announced.operationScopes) {
        named = announced.operationScopes
        resource = new ProtectedResource(options, named ?? [])
      }
      return resource
    },
  }
}

/** Returns the endpoint of an adapter. @throws {KitMcpConfigError} for any other value. */
export function checkEndpoint({ invalidKind }: OptionChecks, adapter: McpAdapter): McpEndpoint {
  const endpoint = endpointOf(adapter)
  if (endpoint !== undefined) return endpoint
  const expected = 'must be the return value of KitMcpServer…build() or createMcpAdapter()'
  throw invalidKind('adapter', expected, adapter)
}
