import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

/**
 * Returns the file URL of a package in the user's project, or `undefined` if it is not installed there.
 * @param file the absolute path of the file that would import the package
 */
export function fromProject(name: string, file: string): string | undefined {
  try {
    return pathToFileURL(createRequire(file).resolve(name)).href
  } catch {
    return undefined
  }
}
