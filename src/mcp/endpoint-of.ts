import type { McpEndpoint } from './endpoint.ts'
import type { McpAdapter } from './mcp-adapter.ts'

const endpoints = new WeakMap<object, McpEndpoint>()

/** Keeps the endpoint of an adapter. */
export function keepEndpoint(adapter: McpAdapter, endpoint: McpEndpoint): void {
  endpoints.set(adapter, endpoint)
}

/** Returns the endpoint of an adapter, or undefined for any other value. */
export function endpointOf(adapter: unknown): McpEndpoint | undefined {
  return typeof adapter === 'object' && adapter !== null ? endpoints.get(adapter) : undefined
}
