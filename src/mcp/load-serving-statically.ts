import { McpEndpoint, StdioConnection } from './serving.ts'

const SERVING = { McpEndpoint, StdioConnection }

/** Returns the classes that serve MCP, for bundlers, which cannot follow `require`, and for runtimes other than Node.js. */
export function loadServing(): typeof SERVING {
  return SERVING
}
