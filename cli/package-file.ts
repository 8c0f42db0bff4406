import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Returns the URL of a file or folder of this package, such as `template/`. */
export function packageFile(path: string): URL {
  return new URL(path, packageRoot())
}

/** Returns the nearest folder above this code that contains a `package.json`. Bundled code is at another depth. */
function packageRoot(): URL {
  let folder = new URL('.', import.meta.url)
  while (!existsSync(fileURLToPath(new URL('package.json', folder)))) {
    const parent = new URL('..', folder)
    if (parent.href === folder.href) throw new Error('The package.json of mcp-gatekit is missing.')
    folder = parent
  }
  return folder
}
