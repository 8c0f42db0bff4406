import type { Fault, Incoming, Outgoing } from './doctor-target.ts'

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

/** Answers the requests that match in another way. */
export const on = (
  matches: (request: Incoming) => boolean,
  answer: Partial<Outgoing>,
): Required<Pick<Fault, 'instead'>> => ({
  instead: (request) => (matches(request) ? answer : undefined),
})
