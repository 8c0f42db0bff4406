const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** The maximum number of ids with the same millisecond. Further ids use the next one. */
const IDS_PER_MS = 32 * 32 * 32

const pool = new Uint8Array(1300)
let next = pool.length

let lastMs = 0
let sequence = 0

/**
 * Creates a session id: `ses_` and 26 characters of Crockford's base 32. Ten of them are the time in milliseconds, three a
 * counter within the millisecond, and thirteen random. Ids of one process sort in the order in which they were created.
 */
export function createSessionId(): string {
  const now = Date.now()
  if (now > lastMs || ++sequence === IDS_PER_MS) {
    lastMs = Math.max(now, lastMs + 1)
    sequence = 0
  }
  if (next === pool.length) {
    crypto.getRandomValues(pool)
    next = 0
  }
  let random = ''
  for (let index = 0; index < 13; index++) random += CROCKFORD[(pool[next++] as number) & 31]
  return `ses_${base32(lastMs, 10)}${base32(sequence, 3)}${random}`
}

function base32(value: number, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest = Math.floor(rest / 32))
    text = CROCKFORD[rest % 32] + text
  return text
}
