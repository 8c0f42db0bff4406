import { optionChecksOf } from '../base/options/option-checks.ts'
import { peerProblem } from '../base/peer-problem.ts'

const { invalidOption } = optionChecksOf('toolsFromOpenApi')

/** The optional peers of this entry, with the versions of package.json, so that one command installs all of them. */
const COMMAND = 'npm install @seriousme/openapi-schema-validator@2 light-my-request@6.6 yaml@2'

/**
 * Loads an optional peer.
 * @param option the option that needs the package.
 * @throws {KitMcpConfigError} if the package is missing, or cannot be loaded.
 */
export async function loadPeer<Loaded>(option: string, load: () => Promise<Loaded>): Promise<Loaded> {
  try {
    return await load()
  } catch (cause) {
    const { reason, fix } = peerProblem(cause, COMMAND)
    throw invalidOption(option, `needs packages that ${reason}. ${fix}`)
  }
}
