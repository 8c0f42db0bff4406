import { KitMcpConfigError } from '../../options/config-error.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import { VerifierUnavailableError } from '../errors.ts'
import { joinGate, onJoin } from '../gate-values.ts'
import { issuerNote, noteIssuer, noteRefusal, type RefusalNote, refusalNote } from '../inputs.ts'
import type { UserOf, VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'

const { invalidKind, missingOption } = optionChecksOf('firstMatch')

/** The reasons that a refusal may have, the one that tells a client most first. */
const MOST_TELLING: readonly RefusalNote[] = ['expired', 'wrong_resource']

/**
 * A verifier that asks several in turn, until one accepts: several issuers, or JWTs beside opaque tokens. One that
 * throws is asked past. Put those that answer from memory first: the next is asked when the one before has answered.
 *
 * When none accepts and one was unavailable, the answer is unavailable, after the longest `retryAfterSeconds`: only when
 * all are back is a refusal certain. The reason of a refusal is the most telling one: expired, then for another resource.
 * @throws {KitMcpConfigError} when it is built without verifiers, or with one that is no function.
 * @throws {VerifierUnavailableError} at a request, as above. With several, `cause` is an `AggregateError` of them.
 */
export function firstMatch<Verifiers extends readonly VerifyToken<any, any>[]>(
  ...verifiers: Verifiers
): VerifyToken<unknown, UserOf<Verifiers[number]>> {
  if (verifiers.length === 0) {
    throw missingOption('verifiers', 'give firstMatch at least one, such as firstMatch(jwtVerifier(…), …)')
  }
  for (const verifier of verifiers) {
    if (typeof verifier !== 'function') throw invalidKind('verifiers', 'must all be functions', verifier)
  }
  async function verifyByFirstMatch(
    input: VerifyTokenInput,
  ): Promise<VerifiedToken<UserOf<Verifiers[number]>> | undefined> {
    const outages: VerifierUnavailableError[] = []
    const notes = new Set<RefusalNote | undefined>()
    for (const [index, verifier] of verifiers.entries()) {
      noteIssuer(input, undefined)
      try {
        const verified = await verifier(input)
        if (verified?.valid === true) {
          noteIssuer(input, issuerAmong(index, issuerNote(input)))
          return verified
        }
      } catch (error) {
        if (error instanceof KitMcpConfigError) throw error
        if (VerifierUnavailableError.is(error)) outages.push(error)
      }
      notes.add(refusalNote(input))
    }
    if (outages.length > 0) throw togetherUnavailable(outages)
    const told = MOST_TELLING.find((note) => notes.has(note))
    if (told !== undefined) noteRefusal(input, told)
    return undefined
  }
  return onJoin(verifyByFirstMatch, (gate) => {
    for (const verifier of verifiers) joinGate(verifier, gate)
  })
}

/** The issuer of a token, or what stands for it if the verifier does not name it: two verifiers may have a user of one id. */
function issuerAmong(index: number, noted: string | undefined): string {
  if (noted === undefined) return `verifier:${index}`
  return noted.startsWith('verifier:') ? `verifier:${index}.${noted.slice('verifier:'.length)}` : noted
}

function togetherUnavailable(outages: readonly VerifierUnavailableError[]): VerifierUnavailableError {
  if (outages.length === 1) return outages[0] as VerifierUnavailableError
  return new VerifierUnavailableError(`${outages.length} verifiers are unavailable`, {
    cause: new AggregateError(outages, outages.map(({ message }) => message).join('; ')),
    retryAfterSeconds: Math.max(...outages.map(({ retryAfterSeconds }) => retryAfterSeconds)),
  })
}
