import { expect } from 'chai'
import type { ExaminationOptions } from '../../../cli/doctor/examination.ts'
import { examineTarget, type Fault, type Outgoing, problemsOf, startTarget } from './doctor-target.ts'

/** A fault of a server, and the finding that doctor must report for it. */
export interface KnownFault extends Fault {
  readonly what: string
  /** The expected finding. `problem` is `id: status`. */
  readonly finds: readonly [problem: string, seen: RegExp, hint: RegExp]
  /** Changes to the options of doctor. */
  readonly asked?: Partial<ExaminationOptions>
}

/** Tests that doctor reports each fault, with a hint, and nothing else. */
export function itReports(faults: readonly KnownFault[]): void {
  for (const { what, finds, asked, ...fault } of faults) {
    const [problem, seen, hint] = finds
    it(`reports "${problem}" for ${what}`, async () => {
      const report = await examineTarget(await startTarget(fault), asked)
      expect(problemsOf(report)).to.deep.equal([problem])
      const finding = report.checks.find(({ id }) => problem.startsWith(`${id}:`))
      expect(finding?.seen).to.match(seen)
      expect(finding?.hint).to.match(hint)
    })
  }
}

/** Changes a header of the responses with the given status. */
export function header(
  name: string,
  status: number,
  change: (value: string) => string | undefined,
): NonNullable<Fault['alter']> {
  return (answer) => {
    const value = answer.headers[name]
    if (answer.status !== status || value === undefined) return
    const changed = change(String(value))
    if (changed === undefined) delete answer.headers[name]
    else answer.headers[name] = changed
  }
}

/** Changes the challenge of each 401. */
export const challenge = (change: (value: string) => string | undefined): NonNullable<Fault['alter']> =>
  header('www-authenticate', 401, change)

/** Returns a change of the members of a document. `undefined` removes a member. */
export const members = (changes: object) => (document: object) => void Object.assign(document, changes)

/** Changes the metadata documents, in place or by the members that are given. */
export function metadata(changes: object | ((document: any) => void)): NonNullable<Fault['alter']> {
  const change = typeof changes === 'function' ? (changes as (document: any) => void) : members(changes)
  return (answer, { method, path }) => {
    if (!path.startsWith('/.well-known/') || method !== 'GET' || answer.status !== 200) return
    const document = JSON.parse(answer.body)
    change(document)
    answer.body = JSON.stringify(document)
  }
}

/** Returns a response with a JSON-RPC message. */
export function json(message: object, status = 200): Partial<Outgoing> {
  const headers = { 'content-type': 'application/json', 'access-control-allow-origin': '*' }
  return { status, headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }) }
}
