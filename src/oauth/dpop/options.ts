import { randomBytes } from 'node:crypto'
import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { DpopNonces } from './nonces.ts'
import { type DpopReplayStore, MemoryReplayStore } from './replay-store.ts'

const { checkOneOf, fitting, fittingKind, invalidKind, invalidOption, readMembers, wholeNumber } =
  optionChecksOf('oauth')

/**
 * The use of DPoP (RFC 9449):
 * - `off`: `Authorization: DPoP …` is rejected.
 * - `allowed`: DPoP tokens are accepted with their proof. Bearer tokens are accepted if they are not bound to a key.
 * - `required`: only DPoP tokens are accepted.
 */
export type DpopMode = 'off' | 'allowed' | 'required'

/** Options for DPoP (RFC 9449). */
export interface DpopOptions {
  /** Decides whether clients may or must use DPoP. */
  readonly mode: DpopMode
  /** The store of used proofs. Defaults to the memory of this process, which keeps the latest 100 000. */
  readonly replayStore?: DpopReplayStore | undefined
  /**
   * Requires proofs to include a nonce of this server (RFC 9449 §9). `true` creates a secret for this process. If several
   * nodes serve the resource, set the same `secret` of 32 characters or more for all of them. A nonce is valid for
   * 300 s at most. Defaults to `false`.
   */
  readonly nonce?: boolean | { readonly secret: string }
  /** The maximum difference between `iat` of a proof and the current time, in seconds. Defaults to 300 s. */
  readonly proofMaxAgeSeconds?: number | undefined
  /** The accepted signature algorithms of proofs, which must be asymmetric. Defaults to all supported ones. */
  readonly algorithms?: readonly string[] | undefined
}

const MODES: readonly DpopMode[] = ['off', 'allowed', 'required']

/** The supported algorithms: asymmetric ones, and never `none` (RFC 9449 §11.6). */
const ALGORITHMS: readonly string[] = [
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
]

/** The maximum time that a nonce is valid. */
const NONCE_LIFETIME_SECONDS = 300

const NONCE_RULES = {
  secret: fittingKind<string>(
    (secret) => typeof secret === 'string' && secret.length >= 32,
    'must be a string of 32 characters or more',
  ),
}

const RULES = {
  mode(_option: string, value: unknown): DpopMode {
    if (typeof value === 'string') return checkOneOf('dpop', value, MODES)
    const expected = `must be 'off', 'allowed' or 'required', or an object with such a mode`
    throw invalidOption('dpop', expected, value)
  },
  replayStore(option: string, value: unknown = new MemoryReplayStore()): DpopReplayStore {
    const { use } = (value ?? {}) as Partial<DpopReplayStore>
    if (typeof use === 'function') return value as DpopReplayStore
    const expected = 'must be an object with a method use(key, expiresAtSeconds)'
    throw invalidKind(option, expected, value, 'use redisReplayStore(client), or a store of your own')
  },
  nonce(option: string, value: unknown = false): DpopNonces | undefined {
    if (isOptionsObject(value))
      return new DpopNonces(readMembers(option, value, NONCE_RULES).secret, NONCE_LIFETIME_SECONDS)
    if (typeof value !== 'boolean')
      throw invalidKind(option, 'must be true, false, or an object such as { secret }', value)
    return value ? new DpopNonces(randomBytes(32), NONCE_LIFETIME_SECONDS) : undefined
  },
  proofMaxAgeSeconds: optional(wholeNumber(1), 300),
  algorithms: optional(
    fitting<readonly string[]>(
      (list) => Array.isArray(list) && list.length > 0 && list.every((one) => ALGORITHMS.includes(one)),
      `must be a list of at least one of ${ALGORITHMS.join(', ')}`,
    ),
    ALGORITHMS,
  ),
} satisfies RulesFor<DpopOptions>

export type ResolvedDpopOptions = NonNullable<ReturnType<typeof resolveDpop>>

/**
 * Checks the option `dpop`. Returns `undefined` if DPoP is off.
 * @throws {KitMcpConfigError} if the option is invalid.
 */
export function resolveDpop(value: unknown) {
  const given = isOptionsObject(value) ? value : { mode: value }
  const { mode, nonce, algorithms, ...others } = readMembers('dpop', given, RULES)
  if (mode === 'off') return undefined
  return { required: mode === 'required', nonces: nonce, algorithms: [...new Set(algorithms)], ...others }
}
