import { randomBytes } from 'node:crypto'
import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { DpopNonces } from './nonces.ts'
import { type DpopReplayStore, MemoryReplayStore } from './replay-store.ts'

const { checkOneOf, invalidKind, invalidOption, readMembers, wholeNumber } = optionChecksOf('oauth')

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

/** `DpopOptions`, checked, copied, and with their defaults. */
export interface ResolvedDpopOptions {
  readonly required: boolean
  readonly replayStore: DpopReplayStore
  readonly nonces: DpopNonces | undefined
  readonly proofMaxAgeSeconds: number
  readonly algorithms: readonly string[]
}

const MODES: readonly DpopMode[] = ['off', 'allowed', 'required']

/** The supported algorithms: asymmetric ones, and never `none` (RFC 9449 §11.6). */
const ALGORITHMS: readonly string[] = [
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
]

const RULES = {
  mode: checkMode,
  replayStore: checkReplayStore,
  nonce: checkNonce,
  proofMaxAgeSeconds: optional(wholeNumber(1), 300),
  algorithms: optional(checkAlgorithms, ALGORITHMS),
} satisfies RulesFor<DpopOptions>

/**
 * Checks the option `dpop`. Returns `undefined` if DPoP is off.
 * @throws {KitMcpConfigError} if the option is invalid.
 */
export function resolveDpop(value: unknown): ResolvedDpopOptions | undefined {
  const { mode, nonce, ...others } = readMembers(
    'dpop',
    isOptionsObject(value) ? value : { mode: value },
    RULES,
  )
  return mode === 'off' ? undefined : { required: mode === 'required', nonces: nonce, ...others }
}

function checkMode(_option: string, value: unknown): DpopMode {
  if (typeof value === 'string') return checkOneOf('dpop', value, MODES)
  throw invalidOption('dpop', `must be 'off', 'allowed' or 'required', or an object with such a mode`, value)
}

function checkReplayStore(option: string, value: unknown): DpopReplayStore {
  if (value === undefined) return new MemoryReplayStore()
  if (typeof (value as { use?: unknown } | null)?.use !== 'function') {
    throw invalidKind(
      option,
      'must be an object with a method use(key, expiresAtSeconds)',
      value,
      'use redisReplayStore(client), or a store of your own',
    )
  }
  return value as DpopReplayStore
}

/** The maximum time that a nonce is valid. */
const NONCE_LIFETIME_SECONDS = 300

function checkNonce(option: string, value: unknown = false): DpopNonces | undefined {
  if (!isOptionsObject(value)) {
    if (typeof value !== 'boolean')
      throw invalidKind(option, 'must be true, false, or an object such as { secret }', value)
    return value ? new DpopNonces(randomBytes(32), NONCE_LIFETIME_SECONDS) : undefined
  }
  const { secret } = readMembers(option, value, { secret: checkNonceSecret })
  return new DpopNonces(secret, NONCE_LIFETIME_SECONDS)
}

function checkNonceSecret(option: string, value: unknown): string {
  if (typeof value !== 'string' || value.length < 32)
    throw invalidKind(option, 'must be a string of 32 characters or more', value)
  return value
}

function checkAlgorithms(option: string, value: unknown): readonly string[] {
  const fits = Array.isArray(value) && value.length > 0 && value.every((one) => ALGORITHMS.includes(one))
  if (!fits) throw invalidOption(option, `must be a list of at least one of ${ALGORITHMS.join(', ')}`, value)
  return Object.freeze([...new Set(value as string[])])
}
