import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { LRUCache } from 'lru-cache'

const HEADER = 'mcp-session-id'
const MAX_SESSIONS = 10_000
/** Longer ids are kept as hashes, because a server may return whatever its clients send. */
const MAX_ID_LENGTH = 128

/** Shared by the gates of one options object: one of them may serve the POST of a path, and another one the GET. */
const sessionsOfTargets = new WeakMap<object, BoundSessions>()

/** The owners of the sessions that a server behind a gate has begun. The session that was not used for the longest time is forgotten. */
export class BoundSessions {
  readonly #owners = new LRUCache<string, string>({ max: MAX_SESSIONS })

  static of(target: object): BoundSessions {
    const known = sessionsOfTargets.get(target) ?? new BoundSessions()
    sessionsOfTargets.set(target, known)
    return known
  }

  /** Returns `true` if the request names a session of another owner. Otherwise, notes the sessions in its response. */
  refuses(req: IncomingMessage, res: ServerResponse, owner: string): boolean {
    const named = namedBy(req.headers[HEADER])
    if (named.some((id) => (this.#owners.get(id) ?? owner) !== owner)) return true
    const { writeHead } = res
    // Every way to write headers ends here. `on-headers` does the same, but requires `http`, so that bundles do not run.
    res.writeHead = ((...args: Parameters<typeof writeHead>) => {
      for (const id of idsIn(res.getHeader(HEADER), args.at(-1))) this.#owners.set(keyOf(id), owner)
      // A server that refuses DELETE keeps the session.
      if (req.method === 'DELETE' && args[0] >= 200 && args[0] < 300)
        for (const id of named) this.#owners.delete(id)
      return writeHead.apply(res, args)
    }) as typeof writeHead
    return false
  }
}

/**
 * Returns the ids of sessions in a response.
 * @param value the header that was set before
 * @param headers the headers of `writeHead`: an object, a list of pairs, or a list of names and values
 */
function idsIn(value: unknown, headers: unknown): readonly string[] {
  const ids = [value ?? []]
  const list = Array.isArray(headers) ? headers.flat() : Object.entries(Object(headers)).flat(1)
  for (let at = 0; at < list.length; at += 2)
    if (String(list[at]).toLowerCase() === HEADER) ids.push(list[at + 1])
  return ids.flat(2).map(String)
}

/** Returns the keys of a header. If it was sent several times, the server may read one of its values, or all as one. */
function namedBy(header: string | string[] | undefined): readonly string[] {
  const value = String(header ?? '')
  return value === '' ? [] : [value, ...(value.includes(',') ? value.split(',') : [])].map(keyOf)
}

function keyOf(value: string): string {
  const id = value.trim()
  return id.length > MAX_ID_LENGTH ? createHash('sha256').update(id).digest('base64') : id
}
