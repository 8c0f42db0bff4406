import { randomBytes } from 'node:crypto'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { DpopNonces } from './nonces.ts'
import { type DpopReplayStore, MemoryReplayStore } from './replay-store.ts'

const { checkKnownMembers, checkOneOf, checkWholeNumber, invalidKind, invalidOption } =
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
   * nodes serve the resource, set the same `secret` of 32 characters or more for all of them. `lifetimeSeconds` is the
   * maximum time that a nonce is valid, 300 s unless set. Defaults to `false`.
   */
  readonly nonce?: boolean | { readonly secret: string; readonly lifetimeSeconds?: number | undefined }
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
const KNOWN_OPTIONS = ['mode', 'replayStore', 'nonce', 'proofMaxAgeSeconds', 'algorithms']

/** The supported algorithms: asymmetric ones, and never `none` (RFC 9449 §11.6). */
const ALGORITHMS: readonly string[] = [
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
]

/**
 * Checks the option `dpop`. Returns `undefined` if DPoP is off.
 * @throws {KitMcpConfigError} if the option is invalid.
 */
export function resolveDpop(value: unknown): ResolvedDpopOptions | undefined {
  const raw: Partial<Record<keyof DpopOptions, unknown>> = isOptionsObject(value) ? value : { mode: value }
  checkKnownMembers('dpop', raw, KNOWN_OPTIONS)
  if (typeof raw.mode === 'string') checkOneOf('dpop', raw.mode, MODES)
  else {
    throw invalidOption(
      'dpop',
      `must be 'off', 'allowed' or 'required', or an object with such a mode`,
      raw.mode,
    )
  }
  const { nonce = false, proofMaxAgeSeconds = 300, algorithms = ALGORITHMS } = raw
  const resolved = Object.freeze({
    required: raw.mode === 'required',
    replayStore: checkReplayStore(raw.replayStore),
    nonces: checkNonce(nonce),
    proofMaxAgeSeconds: checkWholeNumber('dpop.proofMaxAgeSeconds', proofMaxAgeSeconds, 1),
    algorithms: checkAlgorithms(algorithms),
  })
  return raw.mode === 'off' ? undefined : resolved
}

function checkReplayStore(value: unknown): DpopReplayStore {
  if (value === undefined) return new MemoryReplayStore()
  if (typeof (value as { use?: unknown } | null)?.use !== 'function') {
    throw invalidKind(
      'dpop.replayStore',
      'must be an object with a method use(key, expiresAtSeconds)',
      value,
      'use redisReplayStore(client), or a store of your own',
    )
  }
  return value as DpopReplayStore
}

function checkNonce(value: unknown): DpopNonces | undefined {
  if (!isOptionsObject(value)) {
    if (typeof value !== 'boolean')
      throw invalidKind('dpop.nonce', 'must be true, false, or an object such as { secret }', value)
    return value ? new DpopNonces(randomBytes(32), 300) : undefined
  }
  checkKnownMembers('dpop.nonce', value, ['secret', 'lifetimeSeconds'])
  const { secret, lifetimeSeconds = 300 } = value as { secret?: unknown; lifetimeSeconds?: unknown }
  if (typeof secret !== 'string' || secret.length < 32)
    throw invalidKind('dpop.nonce.secret', 'must be a string of 32 characters or more', secret)
  return new DpopNonces(secret, checkWholeNumber('dpop.nonce.lifetimeSeconds', lifetimeSeconds, 2))
}

function checkAlgorithms(value: unknown): readonly string[] {
  const fits = Array.isArray(value) && value.length > 0 && value.every((one) => ALGORITHMS.includes(one))
  if (!fits)
    throw invalidOption(
      'dpop.algorithms',
      `must be a list of at least one of ${ALGORITHMS.join(', ')}`,
      value,
    )
  return Object.freeze([...new Set(value as string[])])
}
