import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'
import { onceClosed } from '../base/http/response-close.ts'

const HEADER = 'mcp-session-id'
const LINES = /\r\nmcp-session-id:[^\r]*/gi
const MAX_SESSIONS = 10_000
/** Longer ids are kept as hashes, because a server may return whatever its clients send. */
const MAX_ID_LENGTH = 128

/** Shared by the gates of one options object: one of them may serve the POST of a path, and another one the GET. */
const sessionsOfTargets = new WeakMap<object, BoundSessions>()

/** The owners of the sessions that a server behind a gate has begun. The session that was not used for the longest time is forgotten. */
export class BoundSessions {
  readonly #owners = new LRUCache<string, string>({ max: MAX_SESSIONS })
  /** They read the responses that had no head when they were last read. */
  readonly #waiting = new Set<() => boolean>()

  static of(target: object): BoundSessions {
    const known = sessionsOfTargets.get(target) ?? new BoundSessions()
    sessionsOfTargets.set(target, known)
    return known
  }

  /** Returns `true` if the request names a session of another owner. */
  refuses(req: IncomingMessage, owner: string): boolean {
    if (req.headers[HEADER] === undefined) return false
    const named = namedBy(req)
    if (named.every((id) => this.#owners.get(id) === owner)) return false
    // The client may have read the head of a response that is still open.
    for (const read of this.#waiting) if (read()) this.#waiting.delete(read)
    return named.some((id) => (this.#owners.get(id) ?? owner) !== owner)
  }

  /** Notes the sessions in the response to a request that was passed on. Nothing of the response is replaced, which would take long. */
  note(req: IncomingMessage, res: ServerResponse, owner: string): void {
    const read = (): boolean => this.#read(req, res, owner)
    if (read()) return
    this.#waiting.add(read)
    onceClosed(req, res, () => {
      if (this.#waiting.delete(read)) read()
    })
  }

  /** Returns `false` if the response has no head yet. */
  #read(req: IncomingMessage, res: ServerResponse, owner: string): boolean {
    const head = (res as { readonly _header?: unknown })._header ?? res.headersSent
    if (!head) return false
    for (const id of idsIn(res, head)) this.#owners.set(keyOf(id), owner)
    // A server that refuses DELETE keeps the session.
    if (req.method === 'DELETE' && res.statusCode >= 200 && res.statusCode < 300)
      for (const id of namedBy(req)) this.#owners.delete(id)
    return true
  }
}

/**
 * Returns the ids of sessions in the head of a response.
 * @param head the text of the head. Only HTTP/1.1 has one, and needs it: `getHeader` does not return the headers of `writeHead`.
 */
function idsIn(res: ServerResponse, head: unknown): readonly string[] {
  return typeof head === 'string'
    ? (head.match(LINES) ?? []).map((line) => line.slice(HEADER.length + 3))
    : [res.getHeader(HEADER) ?? []].flat().map(String)
}

/** Returns the keys of a header. If it was sent several times, the server may read one of its values, or all as one. */
function namedBy({ headers }: IncomingMessage): readonly string[] {
  const value = String(headers[HEADER] ?? '')
  return value === '' ? [] : [value, ...(value.includes(',') ? value.split(',') : [])].map(keyOf)
}

function keyOf(value: string): string {
  const id = value.trim()
  return id.length > MAX_ID_LENGTH ? createHash('sha256').update(id).digest('base64') : id
}
