/**
 * Reads the reply to `SET … NX`. Returns `true` if the value was stored, and `false` if the key had a value.
 * @throws for any other reply, which does not say whether the value was stored.
 */
export function wasAdded(reply: unknown): boolean {
  if (reply === null) return false
  if (textOf(reply) === 'OK') return true
  throw unexpected()
}

/**
 * Reads the reply to a command that returns a value. Returns undefined if there is none.
 * @throws for a reply of another type.
 */
export function valueIn(reply: unknown): string | undefined {
  if (reply === null || reply === undefined) return undefined
  const text = textOf(reply)
  if (text === undefined) throw unexpected()
  return text
}

/**
 * Reads the reply to a command that returns 0 or 1. Some clients are set up to return numbers as strings.
 * @throws for any other reply.
 */
export function isOne(reply: unknown): boolean {
  const text = typeof reply === 'number' ? String(reply) : textOf(reply)
  if (text !== '0' && text !== '1') throw unexpected()
  return text === '1'
}

/** Clients return strings, or buffers if they are set up to. */
function textOf(reply: unknown): string | undefined {
  if (typeof reply === 'string') return reply
  return Buffer.isBuffer(reply) ? reply.toString() : undefined
}

/** The error does not contain the reply, which may be secret. */
function unexpected(): Error {
  return new Error('The reply of Redis has an unexpected type')
}
