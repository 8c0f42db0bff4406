import { optionChecksOf } from '../options/option-checks.ts'

const { invalidOption } = optionChecksOf('toolsFromOpenApi')

/** The optional peers of this entry, with the versions of package.json, so that one command installs all of them. */
const COMMAND = 'npm install @seriousme/openapi-schema-validator@2 light-my-request@6.6 yaml@2'

/**
 * Loads an optional peer.
 * @param option the option that needs the package.
 * @throws {KitMcpConfigError} if the package is not installed, with the command that installs it.
 */
export async function loadPeer<Module>(option: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load()
  } catch (cause) {
    const { code } = (cause ?? {}) as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause
    throw invalidOption(option, `needs packages that are not installed. Run ${COMMAND}`)
  }
}
