import { randomBytes } from 'node:crypto'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { DpopNonces } from './nonces.ts'
import { type DpopReplayStore, MemoryReplayStore } from './replay-store.ts'

const { checkKnownMembers, checkOneOf, checkWholeNumber, invalidKind, invalidOption } =
  optionChecksOf('oauth')

/**
 * `off`: `Authorization: DPoP …` is no token. `allowed`: it is, with its proof; Bearer tokens that are bound to no key
 * are taken as well. `required`: nothing else is taken.
 */
export type DpopMode = 'off' | 'allowed' | 'required'

/** DPoP (RFC 9449) in detail. */
export interface DpopOptions {
  /** Whether DPoP may, or must, be used. */
  readonly mode: DpopMode
  /** Where used proofs are remembered. Default: in this process, the latest 100 000. */
  readonly replayStore?: DpopReplayStore | undefined
  /**
   * Whether proofs must carry a nonce of this server (RFC 9449 §9). Default false. `true` makes a secret for this
   * process; where several nodes serve the resource, give them the same `secret` (32 characters or more).
   * `lifetimeSeconds`: how long a nonce is good at most, default 300.
   */
  readonly nonce?: boolean | { readonly secret: string; readonly lifetimeSeconds?: number | undefined }
  /** Seconds that `iat` of a proof may differ from now, either way. Default 300. */
  readonly proofMaxAgeSeconds?: number | undefined
  /** Signature algorithms of proofs: asymmetric ones only. Default all of them. */
  readonly algorithms?: readonly string[] | undefined
}

/** `DpopOptions`, checked and with their defaults. */
export interface ResolvedDpopOptions {
  readonly required: boolean
  readonly replayStore: DpopReplayStore
  readonly nonces: DpopNonces | undefined
  readonly proofMaxAgeSeconds: number
  readonly algorithms: readonly string[]
}

const MODES: readonly DpopMode[] = ['off', 'allowed', 'required']
const KNOWN_OPTIONS = ['mode', 'replayStore', 'nonce', 'proofMaxAgeSeconds', 'algorithms']

/** RFC 9449 §11.6: asymmetric, and never `none`. */
const ALGORITHMS: readonly string[] = [
  ...['ES256', 'ES384', 'ES512', 'EdDSA'],
  ...['PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
]

/** Undefined where DPoP is off. @throws {KitMcpConfigError} naming the option. */
export function resolveDpop(value: unknown): ResolvedDpopOptions | undefined {
  const given: Partial<Record<keyof DpopOptions, unknown>> = isOptionsObject(value) ? value : { mode: value }
  checkKnownMembers('dpop', given, KNOWN_OPTIONS)
  if (typeof given.mode === 'string') checkOneOf('dpop', given.mode, MODES)
  else {
    throw invalidOption(
      'dpop',
      `must be 'off', 'allowed' or 'required', or an object with such a mode`,
      given.mode,
    )
  }
  const { nonce = false, proofMaxAgeSeconds = 300, algorithms = ALGORITHMS } = given
  const resolved = Object.freeze({
    required: given.mode === 'required',
    replayStore: checkReplayStore(given.replayStore),
    nonces: checkNonce(nonce),
    proofMaxAgeSeconds: checkWholeNumber('dpop.proofMaxAgeSeconds', proofMaxAgeSeconds, 1),
    algorithms: checkAlgorithms(algorithms),
  })
  return given.mode === 'off' ? undefined : resolved
}

function checkReplayStore(value: unknown): DpopReplayStore {
  if (value === undefined) return new MemoryReplayStore()
  if (typeof (value as { use?: unknown } | null)?.use !== 'function') {
    throw invalidKind(
      'dpop.replayStore',
      'must be an object with a function use(key, expiresAtSeconds)',
      value,
      'such as redisReplayStore(client)',
    )
  }
  return value as DpopReplayStore
}

function checkNonce(value: unknown): DpopNonces | undefined {
  if (!isOptionsObject(value)) {
    if (typeof value !== 'boolean')
      throw invalidKind('dpop.nonce', 'must be true or false, or an object such as { secret }', value)
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
