// The classes that serve MCP with the official SDK. Nothing else of the main entry loads the SDK, which is an optional peer.
export { KitMcpConfigError } from '../base/options/config-error.ts'
export { McpEndpoint } from './endpoint.ts'
export { StdioConnection } from './stdio/stdio-connection.ts'
