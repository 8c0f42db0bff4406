import type { Answer } from './answer.ts'
import { AuthInfo } from './auth-info.ts'
import {
  type BearerCredentials,
  type DpopCredentials,
  readAccessToken,
  readBearerToken,
} from './authorization-header.ts'
import { bearerChallenge, type DpopChallengeError, dpopChallenge } from './challenge.ts'
import { Deadlines } from './deadlines.ts'
import type { ResolvedDpopOptions } from './dpop/options.ts'
import { type CheckedProof, checkProof } from './dpop/proof.ts'
import { VerifierUnavailableError } from './errors.ts'
import { OnVerifiedInput, refusalNote, VerifyInput } from './inputs.ts'
import type { ResolvedOAuthOptions, VerifiedToken, VerifyContext } from './options.ts'
import { ProtectedResource } from './protected-resource.ts'
import { grantedScopes, ScopeHierarchy, unionOfScopes } from './scope.ts'

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
  /** Path of the request's URL. */
  readonly path: string
  /** IP address of the client, where it is known. */
  readonly clientAddress?: string | undefined
}

export type RefusalReason =
  | 'missing'
  | 'malformed'
  | 'invalid'
  | 'expired'
  | 'wrong_resource'
  | 'insufficient_scope'
  | 'rate_limited'

/** What the gate made of a request. */
export type Decision =
  | { readonly outcome: 'accepted'; readonly auth: AuthInfo; readonly context: VerifyContext }
  | Refusal
  | { readonly outcome: 'unavailable'; readonly retryAfterSeconds: number; readonly cause: unknown }
  | { readonly outcome: 'failed'; readonly cause: unknown }

export type Refusal =
  | {
      readonly outcome: 'refused'
      readonly reason: Exclude<RefusalReason, 'insufficient_scope' | 'rate_limited'>
      readonly cause?: unknown
      /** What was wrong with the DPoP proof, or for want of one. */
      readonly fault?: ProofFault
    }
  | { readonly outcome: 'refused'; readonly reason: 'rate_limited'; readonly retryAfterSeconds: number }
  | { readonly outcome: 'refused'; readonly reason: 'insufficient_scope'; readonly scopes: readonly string[] }

/** What DPoP adds to an `invalid` token. */
export type ProofFault = 'invalid_dpop_proof' | 'use_dpop_nonce' | 'proof_needed' | 'not_bound'

const FAULTS: Readonly<Record<ProofFault, { error: DpopChallengeError; description: string }>> = {
  invalid_dpop_proof: { error: 'invalid_dpop_proof', description: 'The DPoP proof is not valid' },
  use_dpop_nonce: { error: 'use_dpop_nonce', description: 'The DPoP proof needs a nonce of this server' },
  proof_needed: { error: 'invalid_token', description: 'The access token must come with a DPoP proof' },
  not_bound: {
    error: 'invalid_token',
    description: 'The access token is not bound to the key of the DPoP proof',
  },
}

/** The only texts that ever stand in `error_description`: nothing a client, a token or a verifier said. */
const DESCRIPTIONS: Readonly<Record<RefusalReason, string>> = {
  missing: 'An access token is needed',
  malformed: 'The Authorization header does not hold one bearer token',
  invalid: 'The access token is not valid',
  expired: 'The access token has expired',
  wrong_resource: 'The access token is for another resource',
  insufficient_scope: 'The access token lacks a scope that this request needs',
  rate_limited: 'Too many requests of this address were refused',
}

const JSON_HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

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
      context = made instanceof Promise ? await made : made
    } catch (cause) {
      return { outcome: 'failed', cause }
    }
    let verdict: Verdict
    try {
      const input = new VerifyInput(request, credentials.token, context, resource, proof?.keyThumbprint)
      verdict = judge(await this.#verify(input), resource, proof?.keyThumbprint) ?? notedRefusal(input)
    } catch (cause) {
      if (VerifierUnavailableError.is(cause)) {
        return { outcome: 'unavailable', retryAfterSeconds: cause.retryAfterSeconds, cause }
      }
      return { outcome: 'refused', reason: 'invalid', cause }
    }
    if (!('token' in verdict)) return verdict
    const replayed = proof === undefined ? undefined : await this.#takeProof(proof)
    if (replayed !== undefined) return replayed
    const auth = new AuthInfo(credentials.token, verdict.token)
    const { onVerified } = this.options
    if (onVerified !== undefined) {
      try {
        await onVerified(new OnVerifiedInput(request, context, auth))
      } catch (cause) {
        return { outcome: 'failed', cause }
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
    const retryAfterSeconds = await limiter.count(this.#clientAddress(request))
    return retryAfterSeconds === undefined
      ? decision
      : { outcome: 'refused', reason: 'rate_limited', retryAfterSeconds }
  }

  /** The response to everything but `accepted`. */
  answer(decision: Exclude<Decision, { outcome: 'accepted' }>, request: GateRequest): Answer {
    switch (decision.outcome) {
      case 'refused':
        return this.#refusal(decision, request)
      case 'unavailable':
        return {
          status: 503,
          headers: { ...JSON_HEADERS, 'Retry-After': String(decision.retryAfterSeconds) },
          body: '{"error":"temporarily_unavailable","error_description":"The access token could not be verified right now"}',
        }
      case 'failed':
        return { status: 500, headers: JSON_HEADERS, body: '{"error":"server_error"}' }
    }
  }

  #refusal(refusal: Refusal, request: GateRequest): Answer {
    if (refusal.reason === 'rate_limited') return tooManyRefusals(refusal.retryAfterSeconds)
    const { dpop, realm } = this.options
    const error = refusal.reason === 'insufficient_scope' ? 'insufficient_scope' : 'invalid_token'
    const scopes = refusal.reason === 'insufficient_scope' ? refusal.scopes : this.options.scopes
    const fault = 'fault' in refusal && refusal.fault !== undefined ? FAULTS[refusal.fault] : undefined
    const errorDescription = fault?.description ?? DESCRIPTIONS[refusal.reason]
    const resourceMetadata = this.#metadataUrl(request)
    let challenge = bearerChallenge({ realm, error, scopes, resourceMetadata, errorDescription })
    if (dpop !== undefined) challenge += `, ${dpopChallenge(dpop.algorithms, fault?.error, errorDescription)}`
    return {
      status: refusal.reason === 'insufficient_scope' ? 403 : 401,
      headers: {
        ...JSON_HEADERS,
        'WWW-Authenticate': challenge,
        ...(fault?.error === 'use_dpop_nonce' && nonceHeaders(dpop)),
      },
      body: JSON.stringify({
        error,
        error_description: errorDescription,
        ...(refusal.reason === 'insufficient_scope' && { scope: scopes.join(' ') }),
      }),
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
    const url = origin === undefined ? undefined : origin + request.path
    const { method, dpop: proof } = request
    return await checkProof({ proof, method, url, token: credentials.token }, dpop)
  }

  /** Why a proof cannot be taken, if it cannot: it was used before, or nobody knows. */
  async #takeProof({ replayKey, expiresAtSeconds }: CheckedProof): Promise<Decision | undefined> {
    try {
      const taken = this.options.dpop?.replayStore.use(replayKey, expiresAtSeconds)
      const isNew = isPromiseLike(taken) ? await this.#deadlines.within(taken, 'The replay store') : taken
      return isNew === true
        ? undefined
        : { outcome: 'refused', reason: 'invalid', fault: 'invalid_dpop_proof' }
    } catch (cause) {
      return { outcome: 'unavailable', retryAfterSeconds: 5, cause }
    }
  }

  #clientAddress(request: GateRequest): string | undefined {
    const { clientAddress } = this.options
    if (clientAddress === undefined) return request.clientAddress
    try {
      const address: unknown = clientAddress(request.request)
      if (address instanceof Promise) address.catch(() => undefined)
      return typeof address === 'string' ? address : undefined
    } catch {
      return undefined
    }
  }

  #verify(input: VerifyInput): unknown {
    const answered = this.options.verifyToken(input)
    if (!isPromiseLike(answered)) return answered
    return this.#deadlines.within(answered, 'verifyToken')
  }

  /** The verifier hears of requests without a token too; what it says, or when, changes nothing. */
  #askWithoutToken(request: GateRequest, resource: string | undefined): void {
    const ask = (context: VerifyContext): unknown =>
      this.options.verifyToken(new VerifyInput(request, undefined, context, resource))
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

/** RFC 6585 §4. No challenge: another token would not be heard either. */
function tooManyRefusals(retryAfterSeconds: number): Answer {
  return {
    status: 429,
    headers: { ...JSON_HEADERS, 'Retry-After': String(retryAfterSeconds) },
    body: JSON.stringify({ error: 'too_many_requests', error_description: DESCRIPTIONS.rate_limited }),
  }
}

/** RFC 9449 §9. A page must be able to read it. */
function nonceHeaders(dpop: ResolvedDpopOptions | undefined): Record<string, string> {
  return {
    'DPoP-Nonce': dpop?.nonces?.current() ?? '',
    'Access-Control-Expose-Headers': 'DPoP-Nonce',
  }
}

type Verdict = { readonly token: AuthInfoParts } | Refusal
type AuthInfoParts = ConstructorParameters<typeof AuthInfo>[1]

function notedRefusal(input: VerifyInput): Refusal {
  return { outcome: 'refused', reason: refusalNote(input) ?? 'invalid' }
}

/** What a verifier's result means; undefined when it does not say that the token is valid. */
function judge(
  result: unknown,
  configuredResource: string | undefined,
  proofKey: string | undefined,
): Verdict | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const given = result as VerifiedToken
  if (given.valid !== true) return undefined
  const expiresAt = given.expiresAt ?? undefined
  if (expiresAt !== undefined && !Number.isFinite(expiresAt)) return { outcome: 'refused', reason: 'invalid' }
  if (expiresAt !== undefined && expiresAt <= Date.now() / 1000)
    return { outcome: 'refused', reason: 'expired' }
  const resource = given.resource ?? undefined
  if (resource !== undefined && configuredResource !== undefined && String(resource) !== configuredResource) {
    return { outcome: 'refused', reason: 'wrong_resource' }
  }
  const bound = given.cnf ?? undefined
  if (bound === undefined ? proofKey !== undefined : !isBoundTo(bound, proofKey)) {
    return { outcome: 'refused', reason: 'invalid', ...(proofKey !== undefined && { fault: 'not_bound' }) }
  }
  const clientId = given.clientId ?? undefined
  const extra = given.extra ?? undefined
  return {
    token: {
      clientId: clientId === undefined ? '' : String(clientId),
      scopes: grantedScopes(given.scopes),
      expiresAt,
      resource: resource === undefined ? undefined : urlOf(String(resource)),
      user: given.user ?? undefined,
      extra: typeof extra === 'object' ? { ...extra } : {},
    },
  }
}

/** Whether `cnf` names the key of the proof, and nothing else that would have to be proven (RFC 7800, RFC 8705). */
function isBoundTo(cnf: unknown, proofKey: string | undefined): boolean {
  if (typeof cnf !== 'object' || cnf === null) return false
  const methods = Object.keys(cnf)
  if (methods.length === 0) return proofKey === undefined
  return methods.length === 1 && proofKey !== undefined && (cnf as { jkt?: unknown }).jkt === proofKey
}

function urlOf(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}
