/** The reason why optional peers were not loaded, after their names, and the fix as a sentence. */
export interface PeerProblem {
  readonly reason: string
  readonly fix: string
}

/**
 * Describes why optional peers could not be imported. Write each import as `await import('…')` inside of `try`, so that bundlers
 * accept it if the package is not installed.
 * @param command the command that installs the packages
 */
export function peerProblem(cause: unknown, command: string): PeerProblem {
  const { code, message = String(cause) } = Object(cause ?? {}) as Partial<NodeJS.ErrnoException>
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  return {
    reason: isMissing ? 'are not installed' : `could not be loaded (${String(message).split('\n')[0]})`,
    fix:
      `Run ${command}. If the application is bundled, mark these packages as external and install them where it runs. ` +
      'An ESM bundle that contains them may need a banner that defines require with createRequire',
  }
}
