import { optionChecksOf } from '../base/options/option-checks.ts'
import { peerProblem } from '../base/peer-problem.ts'

const { invalidOption } = optionChecksOf('toolsFromOpenApi')

/** The optional peers of this entry, with the versions of package.json, so that one command installs all of them. */
const COMMAND = 'npm install @seriousme/openapi-schema-validator@2 light-my-request@6.6 yaml@2'

/**
 * Returns the error for an optional peer that could not be imported. Write `await import('…')` inside of `try` where it is called:
 * bundlers accept it only in this form if the package is not installed.
 * @param option the option that needs the package.
 */
export function notLoaded(option: string, cause: unknown): Error {
  const { reason, fix } = peerProblem(cause, COMMAND)
  return invalidOption(option, `needs packages that ${reason}. ${fix}`)
}
