import type { VerifyTokenInput } from './options.ts'

const notes = new WeakMap<object, 'expired' | 'wrong_resource'>()

/**
 * Tells the gate why a verifier of this package refuses. A verifier may only return `undefined` for a
 * token that is not valid, which leaves no room for the reason that operators want to see.
 */
export function noteRefusal(input: VerifyTokenInput, reason: 'expired' | 'wrong_resource'): void {
  notes.set(input, reason)
}

/** What was noted for this request, if anything. */
export function refusalNote(input: VerifyTokenInput): 'expired' | 'wrong_resource' | undefined {
  return notes.get(input)
}
