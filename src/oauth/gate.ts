import { clientKey } from '../http/client-address.ts'
import type { PlainResponse } from '../http/plain-response.ts'
import { AuthInfo } from './auth-info.ts'
import {
  type BearerCredentials,
  type DpopCredentials,
  readAccessToken,
  readBearerToken,
} from './authorization-header.ts'
import { Deadlines } from './deadlines.ts'
import type { Decision, ProofFault, Refusal } from './decision.ts'
import type { ResolvedDpopOptions } from './dpop/options.ts'
import { type CheckedProof, checkProof } from './dpop/proof.ts'
import { VerifierUnavailableError } from './errors.ts'
import { issuerNote, OnVerifiedInput, refusalNote, VerifyInput } from './inputs.ts'
import type { ResolvedOAuthOptions, VerifyContext } from './options.ts'
import { ProtectedResource } from './protected-resource.ts'
import { FAILED_ANSWER, refusalAnswer, unavailableAnswer } from './refusal-answers.ts'
import { ScopeHierarchy, unionOfScopes } from './scope.ts'
import { issuerOf, judge, type Verdict } from './verdict.ts'

/** What the gate looks at. Members other than `authorization` are read only when needed. */
export interface GateRequest {
  /** The `Authorization` values as they came. */
  readonly authorization: string | readonly string[] | undefined
  /** The `DPoP` values as they came (RFC 9449 §4.1). */
  readonly dpop?: string | readonly string[] | undefined
  readonly method: string
  /** The web-standard request, without its body. */
  readonly request: Request
  /** Origin of the request's URL; undefined when the request names no usable host. */
  readonly origin: string | undefined
  /** Path of the request's URL, as it came. */
  readonly path: string
  /** IP address of the client, where it is known. */
  readonly clientAddress?: string | undefined
}

const NO_SCOPES: readonly string[] = []

/** Which form of the metadata document is served: gates of the same target share what is known of it. */
export interface MetadataAnnouncement {
  /** Whether it is the path-suffixed one, so that challenges may name it. */
  suffixed: boolean
}

/** Makes the context that verifiers and handlers see. */
export type ContextFactory = (request: GateRequest) => VerifyContext | Promise<VerifyContext>

/**
 * The decision: who may pass. It works on plain values and knows neither Express nor MCP; the faces
 * around it only read requests and write its answers.
 */
export class Gate {
  readonly options: ResolvedOAuthOptions
  readonly resource: ProtectedResource
  readonly #hierarchy: ScopeHierarchy
  readonly #makeContext: ContextFactory
  readonly #announced: MetadataAnnouncement
  readonly #deadlines: Deadlines
  /** Stands for the issuer of a token whose verifier does not name it. */
  readonly #ownIssuer: string

  constructor(
    options: ResolvedOAuthOptions,
    routerScopes: readonly string[],
    makeContext: ContextFactory,
    announced: MetadataAnnouncement = { suffixed: false },
  ) {
    this.options = options
    this.resource = new ProtectedResource(options, routerScopes)
    this.#hierarchy = new ScopeHierarchy(options.scopeImplies)
    this.#makeContext = makeContext
    this.#announced = announced
    this.#deadlines = new Deadlines(options.verifyTimeoutMs)
    this.#ownIssuer = `gate:${options.authorizationServers.join(' ')}`
  }

  /** Challenges name the path-suffixed form from now on. */
  announceSuffixedMetadata(): void {
    this.#announced.suffixed = true
  }

  /** Verifies the token of a request. Scopes are judged apart, by `permits`. */
  authenticate(request: GateRequest): Promise<Decision> {
    const decided = this.#decide(request)
    return this.options.limiter === undefined ? decided : decided.then((one) => this.limited(one, request))
  }

  async #decide(request: GateRequest): Promise<Decision> {
    let resource: string | undefined
    try {
      resource = this.resource.uriFor(request)
    } catch (cause) {
      return { outcome: 'failed', cause }
    }
    const { dpop } = this.options
    const credentials =
      dpop === undefined ? readBearerToken(request.authorization) : readAccessToken(request.authorization)
    if (credentials.kind === 'missing' || credentials.kind === 'malformed') {
      this.#askWithoutToken(request, resource)
      return refusedFor(credentials)
    }
    const proof = dpop === undefined ? undefined : await this.#proofOf(credentials, request, dpop)
    if (typeof proof === 'string') {
      this.#askWithoutToken(request, resource)
      return { outcome: 'refused', reason: 'invalid', fault: proof }
    }
    let context: VerifyContext
    try {
      const made = this.#makeContext(request)
      context =
        made instanceof Promise ? ((await this.#deadlines.within(made, '.context()')) as VerifyContext) : made
    } catch (cause) {
      return { outcome: 'failed', cause }
    }
    let verdict: Verdict
    let issuer: string | undefined
    try {
      const input = new VerifyInput(
        request,
        credentials.token,
        context,
        resource,
        proof?.keyThumbprint,
        this.options.gateValues,
      )
      verdict = judge(await this.#verify(input), resource, proof?.keyThumbprint) ?? notedRefusal(input)
      if ('token' in verdict) issuer = issuerOf(verdict.token, issuerNote(input)) ?? this.#ownIssuer
    } catch (cause) {
      if (VerifierUnavailableError.is(cause)) {
        return { outcome: 'unavailable', retryAfterSeconds: cause.retryAfterSeconds, cause }
      }
      return { outcome: 'refused', reason: 'invalid', cause }
    }
    if (!('token' in verdict)) return verdict
    const replayed = proof === undefined ? undefined : await this.#takeProof(proof)
    if (replayed !== undefined) return replayed
    const auth = AuthInfo.of(credentials.token, verdict.token, issuer)
    const { onVerified } = this.options
    if (onVerified !== undefined) {
      try {
        const heard: unknown = onVerified(new OnVerifiedInput(request, context, auth))
        if (isPromiseLike(heard)) await this.#deadlines.within(heard, 'onVerified')
      } catch (cause) {
        return { outcome: 'failed', cause, auth }
      }
    }
    return { outcome: 'accepted', auth, context }
  }

  /** Whether `granted` suffices for every request and for an operation that needs `operation` as well. */
  permits(granted: readonly string[], operation: readonly string[] = NO_SCOPES): boolean {
    return (
      this.#hierarchy.satisfies(granted, this.options.scopes) && this.#hierarchy.satisfies(granted, operation)
    )
  }

  /** The refusal for a token without the scopes: it names the endpoint's and the operation's at once. */
  insufficientScope(operation: readonly string[] = NO_SCOPES): Refusal {
    return {
      outcome: 'refused',
      reason: 'insufficient_scope',
      scopes: unionOfScopes(this.options.scopes, operation),
    }
  }

  /** A refusal, or the one that is given where the client's address has caused too many. */
  async limited<D extends Decision>(decision: D, request: GateRequest): Promise<D | Refusal> {
    const { limiter } = this.options
    if (decision.outcome !== 'refused' || limiter === undefined) return decision
    const retryAfterSeconds = await limiter.count(this.#clientKey(request))
    return retryAfterSeconds === undefined
      ? decision
      : { outcome: 'refused', reason: 'rate_limited', retryAfterSeconds }
  }

  /** The response to everything but `accepted`. */
  answer(decision: Exclude<Decision, { outcome: 'accepted' }>, request: GateRequest): PlainResponse {
    switch (decision.outcome) {
      case 'refused':
        return refusalAnswer(decision, this.options, () => this.#metadataUrl(request))
      case 'unavailable':
        return unavailableAnswer(decision.retryAfterSeconds)
      case 'failed':
        return FAILED_ANSWER
    }
  }

  #metadataUrl(request: GateRequest): string | undefined {
    try {
      return this.resource.metadataUrl(request, this.#announced.suffixed)
    } catch {
      // The same function has named a resource for this request before; a challenge goes without, then.
      return undefined
    }
  }

  /** The proof of a DPoP token; undefined for a Bearer token that needs none. */
  async #proofOf(
    credentials: DpopCredentials | Extract<BearerCredentials, { kind: 'token' }>,
    request: GateRequest,
    dpop: ResolvedDpopOptions,
  ): Promise<CheckedProof | ProofFault | undefined> {
    if (credentials.kind === 'token') return dpop.required ? 'proof_needed' : undefined
    const origin = this.resource.originFor(request)
    const { method, path, dpop: proof } = request
    return await checkProof({ proof, method, origin, path, token: credentials.token }, dpop)
  }

  /** Why a proof cannot be taken, if it cannot: it was used before, or nobody knows. */
  async #takeProof({
    replayKey,
    expiresAtSeconds,
    keyThumbprint,
  }: CheckedProof): Promise<Decision | undefined> {
    try {
      const taken = this.options.dpop?.replayStore.use(replayKey, expiresAtSeconds, keyThumbprint)
      const isNew = isPromiseLike(taken) ? await this.#deadlines.within(taken, 'The replay store') : taken
      return isNew === true
        ? undefined
        : { outcome: 'refused', reason: 'invalid', fault: 'invalid_dpop_proof' }
    } catch (cause) {
      return { outcome: 'unavailable', retryAfterSeconds: 5, cause }
    }
  }

  /** The key that a refusal is counted by; `undefined` if it is not counted. */
  #clientKey(request: GateRequest): string | undefined {
    const { clientAddress } = this.options
    if (clientAddress === undefined) return clientKey(request.clientAddress)
    let address: unknown
    try {
      address = clientAddress(request.request)
      if (address === undefined) return undefined
      if (address instanceof Promise) address.catch(() => undefined)
    } catch {
      // An error must not lift the limit.
    }
    const named = typeof address === 'string' ? clientKey(address) : undefined
    // What the function returned may come from a header that the client chose.
    return named ?? clientKey(request.clientAddress) ?? 'unknown'
  }

  #verify(input: VerifyInput): unknown {
    const answered = this.options.verifyToken(input)
    if (!isPromiseLike(answered)) return answered
    return this.#deadlines.within(answered, 'verifyToken')
  }

  /** The verifier hears of requests without a token too; what it says, or when, changes nothing. */
  #askWithoutToken(request: GateRequest, resource: string | undefined): void {
    const ask = (context: VerifyContext): unknown =>
      this.options.verifyToken(
        new VerifyInput(request, undefined, context, resource, undefined, this.options.gateValues),
      )
    try {
      const made = this.#makeContext(request)
      const asked = made instanceof Promise ? made.then(ask) : ask(made)
      if (isPromiseLike(asked)) Promise.resolve(asked).catch(() => undefined)
    } catch {
      // The answer is 401 whatever the application's functions do.
    }
  }
}

function refusedFor(credentials: Exclude<BearerCredentials, { kind: 'token' }>): Refusal {
  return { outcome: 'refused', reason: credentials.kind }
}

function notedRefusal(input: VerifyInput): Refusal {
  return { outcome: 'refused', reason: refusalNote(input) ?? 'invalid' }
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}
