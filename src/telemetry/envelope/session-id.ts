const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** Two characters for each ten bits. */
const PAIRS: readonly string[] = Array.from(
  { length: 1024 },
  (_, bits) => `${CROCKFORD[bits >> 5]}${CROCKFORD[bits & 31]}`,
)

/** How many ids one millisecond can hold before the next is borrowed: three characters. */
const IDS_PER_MS = 32 * 32 * 32

const pool = new Uint16Array(2048)
let next = pool.length

let lastMs = 0
let lastMsText = ''
let sequence = 0

/**
 * A fresh session id: `ses_` and 26 Crockford base-32 characters, of which ten are the time in milliseconds,
 * three a counter within it and thirteen random. Ids of one process sort in the order they were made,
 * those of several by time.
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
