import type { ClientId } from '../../../cli/doctor/clients.ts'
import type { DoctorReport } from '../../../cli/doctor/doctor.ts'
import type { ExaminationOptions } from '../../../cli/doctor/examination.ts'
import { expectNoSecret } from '../expect-no-secret.ts'
import { type DoctorTarget, type Fault, look, startTarget } from './doctor-target.ts'
import { Recording } from './recording.ts'

/** The parts of a text that differ from run to run. */
const VARYING: readonly (readonly [pattern: RegExp, replacement: string])[] = [
  [/(\w):\d{4,5}\b/g, '$1:<port>'],
  [/\bport \d+/g, 'port <n>'],
  [/\b\d+ (ms|seconds?|minutes)\b/g, '<n> $1'],
  [/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>'],
  [/\b(evt|sub)_[\w-]{10,}/g, '$1_<id>'],
  [/\b(?=[\w-]*\d)[\w-]{22,}/g, '<id>'],
  [/ \(\/[^"]*…/g, ' (<path>…'],
  [/; slow: .*? to respond to \w+/g, ''],
]

/** The findings of doctor in a file of `test/cli/recorded`, by server. */
export class Findings {
  readonly #recording: Recording

  constructor(name: string) {
    this.#recording = new Recording(name)
  }

  /** Returns the IDs of the findings of a server, for the title of its test. */
  titleOf(server: string): string {
    const ids = this.#recording.get(server).match(/^[\w.-]+: \w+$/gm) ?? ['nothing']
    return `reports "${ids.join(', ')}" for ${server}`
  }

  /** Compares the warnings and failures of a report, or the findings with these IDs, with the recorded ones. */
  expect(
    server: string,
    { checks }: DoctorReport,
    ids?: readonly string[],
    more: readonly string[] = [],
  ): void {
    const found = checks.filter(({ id, hint }) => ids?.includes(id) ?? hint !== undefined)
    const lines = found.flatMap(({ id, status, seen, hint }) => [
      `${id}: ${status}`,
      ...[seen, hint ?? []].flat().map((text) => `  ${plain(text)}`),
    ])
    this.#recording.compare(server, [...lines, ...more].join('\n'))
  }
}

function plain(text: string): string {
  return VARYING.reduce((rest, [pattern, replacement]) => rest.replaceAll(pattern, replacement), text)
}

/** A server with a fault, and the way in which doctor examines it. */
export interface ExaminedServer extends Fault {
  /** Changes to the options of doctor. */
  readonly asked?: Partial<ExaminationOptions>
  /** The clients as which doctor examines the server, too. Only the statuses are recorded. */
  readonly as?: readonly ClientId[]
  /** The examined URL. Defaults to that of the server. */
  readonly at?: (target: DoctorTarget) => URL
  /** Issues the token. Defaults to a correct one. */
  readonly token?: (target: DoctorTarget) => Promise<string> | string
}

/**
 * Tests that doctor reports what is recorded for each server.
 * @param ids the checks whose findings are recorded, instead of all warnings and failures
 * @param options returns the options of doctor
 */
export function itReports(
  file: string,
  servers: Readonly<Record<string, ExaminedServer>>,
  ids?: readonly string[],
  options: (target: DoctorTarget) => Partial<ExaminationOptions> | Promise<Partial<ExaminationOptions>> = ({
    weakToken,
  }) => ({ underScopedToken: weakToken, call: 'erase' }),
): void {
  const recording = new Findings(file)
  for (const [server, { asked, as = [], at, token, ...fault }] of Object.entries(servers)) {
    const name = ids === undefined ? server : `${server} (${ids})`
    it(recording.titleOf(name), async () => {
      const target = await startTarget(fault)
      const given = (await token?.(target)) ?? target.token
      const changes = { token: given, ...(await options(target)), ...asked }
      const examine = (client?: ClientId) => look(at?.(target) ?? target.url, { as: client, ...changes })
      const report = await examine()
      const statuses: string[] = []
      for (const client of as) {
        const { checks } = await examine(client)
        statuses.push(`as ${client}: ${checks.find(({ id }) => ids?.includes(id))?.status}`)
      }
      recording.expect(name, report, ids, statuses)
      expectNoSecret(report, [given, ...given.split('.').slice(1)])
    })
  }
}
