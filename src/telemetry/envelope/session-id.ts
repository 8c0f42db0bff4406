const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** The two characters for each value of ten bits. */
const PAIRS: readonly string[] = Array.from(
  { length: 1024 },
  (_, bits) => `${CROCKFORD[bits >> 5]}${CROCKFORD[bits & 31]}`,
)

/** The maximum number of ids with the same millisecond. Further ids use the next one. */
const IDS_PER_MS = 32 * 32 * 32

const pool = new Uint16Array(2048)
let next = pool.length

let lastMs = 0
let lastMsText = ''
let sequence = 0

/**
 * Creates a session id: `ses_` and 26 characters of Crockford's base 32. Ten of them are the time in milliseconds, three a
 * counter within the millisecond, and thirteen random. Ids of one process sort in the order in which they were created.
 */
export function createSessionId(): string {
  const now = Date.now()
  if (now > lastMs) startMs(now)
  else if (++sequence === IDS_PER_MS) startMs(lastMs + 1)
  if (next + 7 > pool.length) {
    crypto.getRandomValues(pool)
    next = 0
  }
  const counted = (PAIRS[sequence >> 5] as string) + CROCKFORD[sequence & 31]
  const first = CROCKFORD[(pool[next++] as number) & 31]
  return `ses_${lastMsText}${counted}${first}${pair()}${pair()}${pair()}${pair()}${pair()}${pair()}`
}

function startMs(ms: number): void {
  lastMs = ms
  sequence = 0
  lastMsText = ''
  for (let rest = ms, i = 0; i < 5; i++, rest = Math.floor(rest / 1024))
    lastMsText = PAIRS[rest % 1024] + lastMsText
}

function pair(): string {
  return PAIRS[(pool[next++] as number) & 1023] as string
}
