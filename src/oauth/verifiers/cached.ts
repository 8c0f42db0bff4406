import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../../base/entries-up-to.ts'
import { definedMembers } from '../../base/options/defined-members.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { certificateBindingOf } from '../confirmation.ts'
import type { VerifyTokenInput } from '../gate-values.ts'
import { rejected, verificationOf } from '../inputs.ts'
import type { VerifiedToken, VerifyToken } from '../options.ts'
import { frozenCopy } from './frozen-copy.ts'
import { traitsOf, withTraits } from './verifier-traits.ts'

const { checkFunction, readOptions, seconds, wholeNumber } = optionChecksOf('cachedVerifier')

/** Options of {@link cachedVerifier}. */
export interface CachedVerifierOptions {
  /**
   * The maximum number of cached tokens. Beyond it, the least recently used one is removed. If results have more than 4 096
   * members and characters on average, fewer are entries. Defaults to 10 000.
   */
  readonly maxEntries?: number | undefined
  /**
   * The time for which a successful verification is cached, in seconds. A revoked token may keep working for this long. Defaults
   * to 60 s.
   */
  readonly ttlSeconds?: number | undefined
}

/** A verifier that caches results and supports invalidation. Returned by {@link cachedVerifier}. */
export interface CachedVerifier<App = unknown, User = unknown> {
  /** Returns the cached result, or else calls the verifier. */
  (input: VerifyTokenInput<App>): ReturnType<VerifyToken<App, User>>
  /**
   * Removes a token from the cache, for example because it was revoked. The result of a call in progress is not cached
   * either: requests that already wait for it still get it, and later ones call the verifier again.
   * @param token the token.
   */
  invalidate(token: string): void
  /**
   * Like `invalidate`, but takes the SHA-256 of the token, so that processes can share invalidations without sharing tokens.
   * @param key the SHA-256 of the token in lowercase hex.
   */
  invalidateKey(key: string): void
  /** Removes every token. */
  clear(): void
}

/** The upper limit of `maxEntries`: memory for the tables is allocated at once. */
const MAX_ENTRIES = 1_000_000

const RULES = {
  maxEntries: optional(wholeNumber(1, MAX_ENTRIES), 10_000),
  ttlSeconds: optional(seconds('more than 0'), 60),
} satisfies RulesFor<CachedVerifierOptions>

/** The members and characters that a result may have on average, and the minimum total, which fits a few large results. */
const MEAN_SIZE = 4_096
const MIN_TOTAL_SIZE = 1_048_576

/** The time during which other requests wait for a call. After it, the next request with the token starts another call. */
const JOINABLE_MS = 10_000

/** The members of a result that the gate reads, own or inherited. */
const RESULT_MEMBERS = ['user', 'scopes', 'clientId', 'expiresAt', 'resource', 'extra', 'cnf', 'act']

/**
 * The parts of a request, in addition to its token, that determine the results of this package's verifiers: the client's
 * certificate, if the verifier reads it; the issuer and the resource of the gate, and the key of the proof.
 */
type RequestVariant = readonly (string | undefined)[]

interface CacheEntry<User> {
  readonly variant: RequestVariant
  readonly result: VerifiedToken<User>
  readonly issuer: string | undefined
  readonly size: number
}

interface PendingCall<User> {
  readonly variant: RequestVariant
  readonly input: VerifyTokenInput
  readonly startedAtMs: number
  readonly result: Promise<Outcome<User>>
}

interface Outcome<User> {
  readonly result: VerifiedToken<User> | undefined
  /** `true` if several requests may get the result, because none of them can change it. */
  readonly shared: boolean
  /** The size of an acceptance that may be shared, which is then cached. */
  readonly size?: number
}

/**
 * Wraps a verifier in a cache of successful results. The key is the SHA-256 of the token, and no result outlives the expiry
 * of its token. Rejections, outages, and requests without a token are not cached. Concurrent requests with the same token
 * share one call.
 *
 * Use it only for verifiers that decide by the token: if a verifier reads `request` or `context`, its result for one request
 * would be returned to others. The certificates of `clientCertificate` are an exception: wrap the verifier itself, and each
 * certificate gets its own result. Plain objects and arrays in results are copied and frozen. Other objects in `user` and `extra`
 * are shared by all requests with that token. A result of more than 65 536 members and characters is not cached.
 * @param verifier the verifier to call for tokens that are not cached.
 * @param options the size of the cache and the lifetime of its entries.
 * @returns a verifier for the option `verifyToken`, with methods that remove tokens from the cache.
 * @throws {KitMcpConfigError} if `verifier` is not a function, or an option is invalid.
 * @example
 * ```ts
 * import { cachedVerifier, introspectionVerifier } from 'mcp-gatekit'
 *
 * const verifyToken = cachedVerifier(
 *   introspectionVerifier({
 *     endpoint: 'https://auth.example.com/introspect',
 *     clientId: 'mcp',
 *     clientSecret: String(process.env.CLIENT_SECRET),
 *     audience: 'https://mcp.example.com/mcp',
 *   }),
 *   { ttlSeconds: 30 },
 * )
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc7662#section-4
 */
export function cachedVerifier<App = unknown, User = unknown>(
  verifier: VerifyToken<App, User>,
  options: CachedVerifierOptions = {},
): CachedVerifier<App, User> {
  checkFunction('verifier', verifier, 'pass the verifier whose results are to be cached')
  const { maxEntries, ttlSeconds } = readOptions(
    'cachedVerifier',
    'must be called with an object such as { maxEntries: 10000, ttlSeconds: 60 }',
    options,
    RULES,
  )
  const traits = traitsOf(verifier)
  const { readCertificate } = traits
  const entries = new LRUCache<string, CacheEntry<User>>({
    max: maxEntries,
    maxSize: Math.max(MIN_TOTAL_SIZE, maxEntries * MEAN_SIZE),
    sizeCalculation: ({ size }) => size,
    ttl: Math.ceil(ttlSeconds * 1000),
  })
  const inFlight = new LRUCache<string, PendingCall<User>>(entriesUpTo(maxEntries))

  function verifyCached(input: VerifyTokenInput<App>): ReturnType<VerifyToken<App, User>> {
    const { bearerToken } = input
    if (!bearerToken) return verifier(input)
    const key = keyOf(bearerToken)
    const { gate, resource } = verificationOf(input)
    // Gates for other resources, and other proofs, get results of their own.
    const asked = [gate?.issuer, resource, input.proofKey]
    /** Reading a certificate takes as long as the rest of a request. */
    const isSame = (
      { variant: [certificate, ...others] }: { variant: RequestVariant },
      isBound = true,
    ): boolean =>
      others.every((part, index) => part === asked[index]) &&
      (!isBound || certificate === readCertificate?.(input))
    const found = entries.get(key)
    if (found !== undefined && isSame(found, certificateBindingOf(found.result.cnf) !== undefined)) {
      if (isCurrent(found.result)) {
        note(input, found.issuer, found.result)
        return found.result
      }
      entries.delete(key)
    }
    const call = inFlight.get(key)
    const isJoinable = call && isSame(call) && performance.now() - call.startedAtMs < JOINABLE_MS
    return isJoinable ? join(call, input) : start(key, [readCertificate?.(input), ...asked], input)
  }

  function start(
    key: string,
    variant: RequestVariant,
    input: VerifyTokenInput<App>,
  ): Promise<VerifiedToken<User> | undefined> {
    const result = (async () => sharable(await verifier(input), readCertificate !== undefined))()
    const call: PendingCall<User> = { variant, input, startedAtMs: performance.now(), result }
    inFlight.set(key, call)
    const settle = (outcome?: Outcome<User>): void => {
      // The token was removed in the meantime, and another call may have been started.
      if (inFlight.peek(key) !== call) return
      inFlight.delete(key)
      const { result: accepted, size } = outcome ?? {}
      if (accepted !== undefined && size !== undefined && isCurrent(accepted))
        entries.set(key, { variant, result: accepted, size, issuer: verificationOf(input).issuer })
    }
    result.then(settle, () => settle())
    return result.then((outcome) => outcome.result)
  }

  /** Waits for a call that another request has started, and copies the reason of a refusal as well. */
  async function join(
    call: PendingCall<User>,
    input: VerifyTokenInput<App>,
  ): Promise<VerifiedToken<User> | undefined> {
    const { result, shared } = await call.result
    if (!shared) return await verifier(input)
    const { refusal, issuer } = verificationOf(call.input)
    if (refusal !== undefined) rejected(input, refusal)
    note(input, issuer, result)
    return result
  }

  function invalidateKey(key: string): void {
    entries.delete(key)
    inFlight.delete(key)
  }

  withTraits(verifyCached, traits)
  return Object.assign(verifyCached, {
    invalidate: (token: string) => invalidateKey(keyOf(token)),
    invalidateKey,
    clear() {
      entries.clear()
      inFlight.clear()
    },
  })
}

function keyOf(token: string): string {
  return hash('sha256', token, 'hex')
}

/** Notes for the gate the issuer of a token, and the certificate of this request, with which its result was accepted. */
function note(input: VerifyTokenInput, issuer: string | undefined, result: VerifiedToken | undefined): void {
  const verification = verificationOf(input)
  verification.issuer = issuer
  verification.certificate = certificateBindingOf(result?.cnf) ?? verification.certificate
}

/** Returns `true` if the token has not expired by the wall clock. The cache itself measures the age of an entry. */
function isCurrent({ expiresAt }: VerifiedToken): boolean {
  if (expiresAt === undefined || expiresAt === null) return true
  return Number.isFinite(expiresAt) && expiresAt > Date.now() / 1000
}

/**
 * Makes a result that requests may share: a refusal, or a frozen copy of an acceptance. Otherwise it returns the
 * original.
 */
function sharable<User>(result: VerifiedToken<User> | undefined, readsCertificates: boolean): Outcome<User> {
  if (typeof result !== 'object' || result === null || result.valid !== true) return { result, shared: true }
  // Behind a function of the application, the certificate that was compared is not known.
  if (!readsCertificates && certificateBindingOf(result.cnf) !== undefined) return { result, shared: false }
  const frozen = frozenCopy(() => membersOf(result))
  if (frozen === undefined) return { result, shared: false }
  return { result: frozen.copy, shared: true, size: frozen.size }
}

function membersOf<User>(result: VerifiedToken<User>): VerifiedToken<User> {
  const members = RESULT_MEMBERS.map((name) => [name, (result as never)[name]] as const)
  return definedMembers({ valid: true, ...Object.fromEntries(members) })
}
