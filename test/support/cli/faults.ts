import { expect } from 'chai'
import type { ExaminationOptions } from '../../../cli/doctor/examination.ts'
import { complaints, examinePatient, type Fault, type Outgoing, startPatient } from './patient.ts'

/** One thing that is wrong with a server, and what the doctor has to say of it. */
export interface KnownFault extends Fault {
  readonly what: string
  /** The one complaint: `id: status`. */
  readonly complaint: string
  readonly seen: RegExp
  readonly hint: RegExp
  /** What is asked of the doctor. */
  readonly asked?: Partial<ExaminationOptions>
}

/** Each fault must be told, with its hint, and nothing else. */
export function itTells(faults: readonly KnownFault[]): void {
  for (const { what, complaint, seen, hint, asked, ...fault } of faults) {
    it(`${complaint}: ${what}`, async () => {
      const report = await examinePatient(await startPatient(fault), asked)
      expect(complaints(report)).to.deep.equal([complaint])
      const finding = report.checks.find(({ id }) => complaint.startsWith(`${id}:`))
      expect(finding?.seen).to.match(seen)
      expect(finding?.hint).to.match(hint)
    })
  }
}

/** Changes a header of the answers with this status. */
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

/** Changes the challenges of 401. */
export const challenge = (change: (value: string) => string | undefined): NonNullable<Fault['alter']> =>
  header('www-authenticate', 401, change)

/** Changes the metadata documents in place. */
export function metadata(change: (document: Record<string, any>) => void): NonNullable<Fault['alter']> {
  return (answer, { method, path }) => {
    if (!path.startsWith('/.well-known/') || method !== 'GET') return
    const document = JSON.parse(answer.body)
    change(document)
    answer.body = JSON.stringify(document)
  }
}

/** An answer with a JSON-RPC message. */
export function json(message: object, status = 200): Partial<Outgoing> {
  const headers = { 'content-type': 'application/json', 'access-control-allow-origin': '*' }
  return { status, headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }) }
}
