import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

/**
 * Where a package of the user's project is, as a file URL; undefined where it is not installed there.
 * @param file the absolute path of the server, which would import it
 */
export function fromProject(name: string, file: string): string | undefined {
  try {
    return pathToFileURL(createRequire(file).resolve(name)).href
  } catch {
    return undefined
  }
}
