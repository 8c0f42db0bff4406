import { affectedBy } from '../clients/profiles.ts'
import { type QuirkId, quirkOf } from '../clients/quirks.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, warn } from './finding.ts'

/**
 * Reports a problem that only some clients have: a failure if `--as` names one of them, otherwise a warning. The finding
 * names the clients and the source.
 */
export function clientProblem(
  { options }: Examination,
  id: QuirkId,
  seen: string,
  hint: string = quirkOf(id).remedy.replaceAll('`', '').replace(/\.$/, ''),
): Finding {
  const quirk = quirkOf(id)
  const concerns = options.as !== undefined && quirk.clients.includes(options.as)
  return (concerns ? fail : warn)(`${seen}; affects ${affectedBy(quirk)}`, `${hint} (${quirk.sources[0]})`)
}
