import { KitMcpConfigError } from '../../base/options/config-error.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { VerifierUnavailableError } from '../errors.ts'
import type { VerifyTokenInput } from '../gate-values.ts'
import { type RefusalNote, rejected, verificationOf } from '../inputs.ts'
import type { UserOf, VerifiedToken, VerifyToken } from '../options.ts'
import { isOwnOutage, outage } from '../outages.ts'
import { traitsOf, withTraits } from './verifier-traits.ts'

const { invalidKind, missingOption } = optionChecksOf('firstMatch')

/**
 * The reasons of a refusal, the most helpful one first. The verifier of the token's issuer gets further than the others, so its
 * note comes before `issuer`, `algorithm`, and `type`.
 */
const MOST_HELPFUL: readonly RefusalNote[] = [
  'expired',
  'wrong_resource',
  'key_bound',
  'not_active',
  'signature',
  'verifier',
  'issuer',
  'algorithm',
  'type',
]

/**
 * Combines verifiers: it calls one after the other until one accepts the token. Use it for several issuers, or for JWTs and
 * opaque tokens together. A verifier that throws is skipped, unless it throws `KitMcpConfigError`. List verifiers that need
 * no network first.
 *
 * If none accepts the token and at least one is unavailable, the result is unavailable, with the longest
 * `retryAfterSeconds`. If all reject it, the challenge names the most helpful reason: first that the token has expired, then
 * that it was issued for another resource.
 * @param verifiers the verifiers in the order in which they are called.
 * @returns a verifier for the option `verifyToken`. It rejects with `VerifierUnavailableError` as described above; if several
 * are unavailable, `cause` is an `AggregateError`.
 * @throws {KitMcpConfigError} if `verifiers` is empty, or one of them is not a function.
 * @example
 * ```ts
 * import { firstMatch, introspectionVerifier, jwtVerifier } from 'mcp-gatekit'
 *
 * const audience = 'https://mcp.example.com/mcp'
 * const verifyToken = firstMatch(
 *   jwtVerifier({ issuer: 'https://auth.example.com', audience }),
 *   introspectionVerifier({
 *     endpoint: 'https://legacy.example.com/introspect',
 *     clientId: 'mcp',
 *     clientSecret: String(process.env.CLIENT_SECRET),
 *     audience,
 *   }),
 * )
 * ```
 * @see docs/guides/identity-providers.md
 */
export function firstMatch<Verifiers extends readonly VerifyToken<any, any>[]>(
  ...verifiers: Verifiers
): VerifyToken<unknown, UserOf<Verifiers[number]>> {
  if (verifiers.length === 0)
    throw missingOption('verifiers', 'pass at least one verifier, such as firstMatch(jwtVerifier(…), …)')
  for (const verifier of verifiers)
    if (typeof verifier !== 'function') throw invalidKind('verifiers', 'must all be functions', verifier)
  async function verifyByFirstMatch(
    input: VerifyTokenInput,
  ): Promise<VerifiedToken<UserOf<Verifiers[number]>> | undefined> {
    const outages: VerifierUnavailableError[] = []
    const notes = new Set<RefusalNote | undefined>()
    const verification = verificationOf(input)
    for (const [index, verifier] of verifiers.entries()) {
      verification.issuer = undefined
      try {
        const verified = await verifier(input)
        if (verified?.valid === true) {
          verification.issuer = issuerAmong(index, verification.issuer)
          return verified
        }
      } catch (error) {
        if (error instanceof KitMcpConfigError) throw error
        if (VerifierUnavailableError.is(error)) outages.push(error)
        else notes.add('verifier')
      }
      notes.add(verification.refusal)
    }
    if (outages.length > 0) throw togetherUnavailable(outages)
    const reason = MOST_HELPFUL.find((note) => notes.has(note))
    return reason === undefined ? undefined : rejected(input, reason)
  }
  const traits = verifiers.map(traitsOf)
  const readers = traits.flatMap(({ readCertificate }) => readCertificate ?? [])
  return withTraits(verifyByFirstMatch, {
    join(gate) {
      for (const { join } of traits) join?.(gate)
    },
    readCertificate:
      readers.length === 0 ? undefined : (input) => readers.map((read) => read(input) ?? '').join(' '),
  })
}

/**
 * Returns the issuer of a token. If the verifier does not name it, its position identifies it, because two verifiers may have
 * users with the same id.
 */
function issuerAmong(index: number, noted: string | undefined): string {
  if (noted === undefined) return `verifier:${index}`
  return noted.startsWith('verifier:') ? `verifier:${index}.${noted.slice('verifier:'.length)}` : noted
}

function togetherUnavailable(outages: readonly VerifierUnavailableError[]): VerifierUnavailableError {
  if (outages.length === 1) return outages[0] as VerifierUnavailableError
  const reasons = outages.filter(isOwnOutage).map(({ message }) => `: ${message}`)
  return outage(`${outages.length} verifiers are unavailable${reasons.join('')}`, {
    cause: new AggregateError(outages, outages.map(({ message }) => message).join('; ')),
    retryAfterSeconds: Math.max(...outages.map(({ retryAfterSeconds }) => retryAfterSeconds)),
  })
}
