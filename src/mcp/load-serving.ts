import { createRequire } from 'node:module'
import type { OptionChecks } from '../options/option-checks.ts'

/**
 * Loads the classes that serve MCP, and with them the official SDK. It does so at once, because the functions that need them
 * are synchronous. Bundlers and other runtimes get `load-serving-statically.ts` instead (see `imports` in package.json).
 * @param caller the function that needs them
 * @throws {KitMcpConfigError} if the SDK is not installed.
 */
export function loadServing(caller: string, { unusableOption }: OptionChecks): typeof import('./serving.ts') {
  try {
    return createRequire(import.meta.url)('./serving.js')
  } catch (error) {
    if (!isMissing(error, '@modelcontextprotocol/server')) throw error
    throw unusableOption(
      caller,
      'needs the package @modelcontextprotocol/server, which is not installed',
      'Run npm install @modelcontextprotocol/server',
    )
  }
}

function isMissing(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`)
}
