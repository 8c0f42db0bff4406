import * as serving from './serving.ts'

/** Returns the classes that serve MCP, for bundlers, which cannot follow `require`, and for runtimes other than Node.js. */
export function loadServing(): typeof serving {
  return serving
}
