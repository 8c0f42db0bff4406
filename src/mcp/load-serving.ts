import { readFileSync } from 'node:fs'
import { createRequire, Module } from 'node:module'
import { fileURLToPath } from 'node:url'
import { KitMcpConfigError } from '../base/options/config-error.ts'
import type { OptionChecks } from '../base/options/option-checks.ts'

type Serving = typeof import('./serving.ts')

/**
 * Loads the classes that serve MCP, and with them the official SDK. It does so at once, because the functions that need them
 * are synchronous. Bundlers and other runtimes get `load-serving-statically.ts` instead (see `imports` in package.json).
 * @param caller the function that needs them
 * @throws {KitMcpConfigError} if the SDK is not installed.
 */
export function loadServing(caller: string, { unusableOption }: OptionChecks): Serving {
  try {
    const serving: Serving = createRequire(import.meta.url)('./serving.js')
    // `require` of a program that runs with tsx compiles modules once more, together with all that they import. A verifier of the
    // program does not know the gates of such a copy.
    return serving.KitMcpConfigError === KitMcpConfigError ? serving : withoutHooks()
  } catch (error) {
    if (!isMissing(error, '@modelcontextprotocol/server')) throw error
    throw unusableOption(
      caller,
      'needs the package @modelcontextprotocol/server, which is not installed',
      'Run npm install @modelcontextprotocol/server',
    )
  }
}

/** Loads the module as `require` of Node.js does, although a hook has replaced it. */
function withoutHooks(): Serving {
  const file = fileURLToPath(new URL('./serving.js', import.meta.url))
  const loaded = new Module(file) as Module & {
    _compile(code: string, file: string, format: 'module'): void
  }
  loaded.filename = file
  loaded._compile(readFileSync(file, 'utf8'), file, 'module')
  return loaded.exports
}

function isMissing(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  // The code of a module that a hook has compiled for `require` has no prefix.
  const isUnknown = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  return isUnknown && message.includes(`'${name}'`)
}
