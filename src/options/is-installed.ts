import { createRequire } from 'node:module'

/** Returns `true` if a package can be resolved. In a bundle, it is not known. */
export function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name)
    return true
  } catch (error) {
    // A package without an entry for `require` is installed.
    return (error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND'
  }
}
