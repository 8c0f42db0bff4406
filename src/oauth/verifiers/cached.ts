import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { joinGate, onJoin } from '../gate-values.ts'
import {
  configuredResource,
  gateValuesIn,
  issuerNote,
  noteIssuer,
  noteRefusal,
  refusalNote,
} from '../inputs.ts'
import type { VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'
import { frozenCopy } from './frozen-copy.ts'

const { checkFunction, checkKnownOptions, checkSeconds, checkWholeNumber, invalidKind, invalidOption } =
  optionChecksOf('cachedVerifier')

/** What `cachedVerifier()` takes beside the verifier. */
export interface CachedVerifierOptions {
  /**
   * How many tokens are remembered; beyond it, the one longest unused is forgotten. Default 10 000. The same holds when
   * their results have more than 4 096 members and characters on average.
   */
  readonly maxEntries?: number | undefined
  /** Seconds that an acceptance is believed, and so the longest that a revoked token goes on working. Default 60. */
  readonly ttlSeconds?: number | undefined
}

/** A verifier that remembers, and can be made to forget. */
export interface CachedVerifier<App = unknown, User = unknown> {
  /** The remembered answer, else that of the verifier. */
  (input: VerifyTokenInput<App>): ReturnType<VerifyToken<App, User>>
  /**
   * Forgets a token, such as one that was revoked. The outcome of a call in flight is not remembered either: requests
   * that wait for it are answered by it, as they came before; later ones ask anew.
   */
  invalidate(token: string): void
  /**
   * The same for a token that is known by its key: the SHA-256 of the token, in lower-case hex. So processes can tell
   * each other without the token itself going about.
   */
  invalidateKey(key: string): void
  /** Forgets every token. */
  clear(): void
}

const KNOWN_OPTIONS = ['maxEntries', 'ttlSeconds'] as const

/** Room for the tables is taken at once, so it must be a number that fits into memory. */
const MAX_ENTRIES = 1_000_000

/** The members and characters that a result may have on average, and at least those of a few of the largest results. */
const MEAN_SIZE = 4_096
const MIN_TOTAL_SIZE = 1_048_576

/** A call that has not come back by then is given up for lost: the next request with its token makes another. */
const JOINABLE_MS = 10_000

/** What the gate reads of a result, also where they are no members of its own. */
const RESULT_MEMBERS = ['user', 'scopes', 'clientId', 'expiresAt', 'resource', 'extra', 'cnf']

/** The parts of a request, beside its token, that verifiers of this package decide by. */
interface Asker {
  readonly gateIssuer: string | undefined
  readonly resource: string | undefined
  readonly proofKey: string | undefined
}

interface Kept<User> extends Asker {
  readonly result: VerifiedToken<User>
  readonly issuer: string | undefined
  readonly size: number
}

interface Flight<User> extends Asker {
  readonly input: VerifyTokenInput
  readonly startedAtMs: number
  readonly landed: Promise<Outcome<User>>
}

interface Outcome<User> {
  readonly result: VerifiedToken<User> | undefined
  /** Whether several requests may have it, since none can change it for another. */
  readonly shared: boolean
  /** What is remembered: an acceptance that may be shared. */
  readonly acceptance?: { readonly result: VerifiedToken<User>; readonly size: number }
}

/**
 * A verifier that remembers what another has accepted, by the SHA-256 of the token, never longer than the token's own
 * expiry. Refusals, outages and requests without a token are not remembered. Requests that bring the same token
 * at the same time wait for one call.
 *
 * Only for verifiers that decide by the token alone: one that reads `request` or `context` would have its answer to
 * one request given to another. What they return is copied and frozen as far as it is plain objects and arrays; other
 * objects in `user` and `extra` are shared by all requests with that token. A result of more than 64 Ki members and
 * characters is not remembered.
 * @throws {KitMcpConfigError} for a verifier that is no function, or wrong options.
 */
export function cachedVerifier<App = unknown, User = unknown>(
  verifier: VerifyToken<App, User>,
  options: CachedVerifierOptions = {},
): CachedVerifier<App, User> {
  checkFunction('verifier', verifier, 'give the verifier whose acceptances are to be remembered')
  const { maxEntries, ttlSeconds } = resolveOptions(options)
  const kept = new LRUCache<string, Kept<User>>({
    max: maxEntries,
    maxSize: Math.max(MIN_TOTAL_SIZE, maxEntries * MEAN_SIZE),
    sizeCalculation: ({ size }) => size,
    ttl: Math.ceil(ttlSeconds * 1000),
  })
  const flights = new LRUCache<string, Flight<User>>({ max: maxEntries })

  function verifyCached(input: VerifyTokenInput<App>): ReturnType<VerifyToken<App, User>> {
    const { bearerToken } = input
    if (!bearerToken) return verifier(input)
    const key = keyOf(bearerToken)
    const found = kept.get(key)
    if (found !== undefined && isAskedBy(found, input)) {
      if (isCurrent(found.result)) {
        noteIssuer(input, found.issuer)
        return found.result
      }
      kept.delete(key)
    }
    const flight = flights.get(key)
    if (flight !== undefined && isAskedBy(flight, input) && isJoinable(flight)) return join(flight, input)
    return depart(key, input)
  }

  function depart(key: string, input: VerifyTokenInput<App>): Promise<VerifiedToken<User> | undefined> {
    const asker = askerOf(input)
    const landed = (async () => sharable(await verifier(input)))()
    const flight: Flight<User> = { ...asker, input, startedAtMs: performance.now(), landed }
    flights.set(key, flight)
    const land = (outcome?: Outcome<User>): void => {
      // Another flight, or none, in its place: the token was forgotten meanwhile.
      if (flights.peek(key) !== flight) return
      flights.delete(key)
      const acceptance = outcome?.acceptance
      if (acceptance !== undefined && isCurrent(acceptance.result))
        kept.set(key, { ...asker, ...acceptance, issuer: issuerNote(input) })
    }
    landed.then(land, () => land())
    return landed.then(({ result }) => result)
  }

  /** Waits for a call that another request has made, and takes over the reason of a refusal as well. */
  async function join(
    flight: Flight<User>,
    input: VerifyTokenInput<App>,
  ): Promise<VerifiedToken<User> | undefined> {
    const { result, shared } = await flight.landed
    if (!shared) return await verifier(input)
    const note = refusalNote(flight.input)
    if (note !== undefined) noteRefusal(input, note)
    noteIssuer(input, issuerNote(flight.input))
    return result
  }

  function invalidateKey(key: string): void {
    kept.delete(key)
    flights.delete(key)
  }

  onJoin(verifyCached, (gate) => joinGate(verifier, gate))
  return Object.assign(verifyCached, {
    invalidate: (token: string) => invalidateKey(keyOf(token)),
    invalidateKey,
    clear() {
      kept.clear()
      flights.clear()
    },
  })
}

function resolveOptions(
  options: CachedVerifierOptions,
): Required<{ [K in keyof CachedVerifierOptions]: number }> {
  if (!isOptionsObject(options)) {
    throw invalidKind(
      'cachedVerifier',
      'takes an object such as { maxEntries: 10000, ttlSeconds: 60 }',
      options,
    )
  }
  checkKnownOptions('cachedVerifier', options, KNOWN_OPTIONS)
  const { maxEntries = 10_000, ttlSeconds = 60 } = options
  checkSeconds('ttlSeconds', ttlSeconds, 'more than 0')
  if (checkWholeNumber('maxEntries', maxEntries, 1) > MAX_ENTRIES)
    throw invalidOption('maxEntries', `must be at most ${MAX_ENTRIES}`, maxEntries)
  return { maxEntries, ttlSeconds }
}

function keyOf(token: string): string {
  return hash('sha256', token, 'hex')
}

function askerOf(input: VerifyTokenInput): Asker {
  return {
    gateIssuer: gateValuesIn(input)?.issuer,
    resource: configuredResource(input),
    proofKey: input.proofKey,
  }
}

/** Whether the outcome may be given to this request too: gates for other resources, and other proofs, get their own. */
function isAskedBy(asker: Asker, input: VerifyTokenInput): boolean {
  return (
    asker.resource === configuredResource(input) &&
    asker.gateIssuer === gateValuesIn(input)?.issuer &&
    asker.proofKey === input.proofKey
  )
}

/** By the wall clock, which may have been set meanwhile; how long ago it was asked, the cache itself counts. */
function isCurrent({ expiresAt }: VerifiedToken): boolean {
  if (expiresAt === undefined || expiresAt === null) return true
  return Number.isFinite(expiresAt) && expiresAt > Date.now() / 1000
}

function isJoinable({ startedAtMs }: Flight<unknown>): boolean {
  return performance.now() - startedAtMs < JOINABLE_MS
}

/** A result as every request may have it: a refusal, or an acceptance in a frozen copy; otherwise as the verifier gave it. */
function sharable<User>(result: VerifiedToken<User> | undefined): Outcome<User> {
  if (typeof result !== 'object' || result === null || result.valid !== true) return { result, shared: true }
  const frozen = frozenCopy(() => membersOf(result))
  if (frozen === undefined) return { result, shared: false }
  const { copy: accepted, size } = frozen
  return { result: accepted, shared: true, acceptance: { result: accepted, size } }
}

function membersOf<User>(result: VerifiedToken<User>): VerifiedToken<User> {
  const members = RESULT_MEMBERS.map((name) => [name, (result as never)[name]] as const)
  return { valid: true, ...Object.fromEntries(members.filter(([, member]) => member !== undefined)) }
}
