import { tryOrUndefined } from './try-or-undefined.ts'

/**
 * Describes why optional peers could not be imported. Write each import as `await import('…')` inside of `try`, so that bundlers
 * accept it if the package is not installed.
 * @param command the command that installs the packages
 * @returns the reason, which follows their names, and the fix as a sentence
 */
export function peerProblem(cause: unknown, command: string): Record<'reason' | 'fix', string> {
  const { code, message = String(cause) } = Object(cause ?? {}) as Partial<NodeJS.ErrnoException>
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  return {
    reason: isMissing ? 'are not installed' : `could not be loaded (${String(message).split('\n')[0]})`,
    fix:
      `Run ${command}. If the application is bundled, mark these packages as external and install them where it runs. ` +
      'An ESM bundle that contains them may need a banner that defines require with createRequire',
  }
}

/** Returns `true` if a package can be resolved. In a bundle, it is not known. */
export function isInstalled(name: string): boolean {
  return tryOrUndefined(() => import.meta.resolve(name)) !== undefined
}
