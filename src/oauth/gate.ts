import type { X509Certificate } from 'node:crypto'
import type { PlainResponse } from '../base/http/plain-response.ts'
import { isPromiseLike } from '../base/options/value-kinds.ts'
import { within } from '../base/within.ts'
import { AuthInfo } from './auth-info.ts'
import {
  type BearerCredentials,
  type DpopCredentials,
  readAccessToken,
  readBearerToken,
} from './authorization-header.ts'
import type { Decision, ProofFault, Refusal } from './decision.ts'
import type { ResolvedDpopOptions } from './dpop/options.ts'
import { type CheckedProof, checkProof } from './dpop/proof.ts'
import { VerifierUnavailableError } from './errors.ts'
import type { VerifyContext } from './gate-values.ts'
import { LazyRequest, type RequestSource, type Verification, VerifyInput } from './inputs.ts'
import { countedClient } from './limits/counted-client.ts'
import { ProtectedResource } from './metadata/protected-resource.ts'
import type { OnVerifiedInput, ResolvedOAuthOptions } from './options.ts'
import { outage } from './outages.ts'
import {
  type ChallengeResult,
  challengeResult,
  FAILED_RESPONSE,
  refusalResponse,
  unavailableResponse,
} from './refusal-responses.ts'
import { namableScopes, ScopeHierarchy, unionOfScopes } from './scope.ts'
import { StoreGuard } from './store-guard.ts'
import { readVerification } from './verification.ts'

/** The parts of a request that the gate reads. Members other than `authorization` are read only if needed. */
export interface GateRequest {
  /** The received `Authorization` values. */
  readonly authorization: string | readonly string[] | undefined
  /** The received `DPoP` values (RFC 9449 §4.1). */
  readonly dpop?: string | readonly string[] | undefined
  readonly method: string
  /** The web-standard request, without its body. */
  readonly request: Request
  /** The origin of the request's URL; `undefined` if the request does not name a valid host. */
  readonly origin: string | undefined
  /** The path of the request's URL, not normalized. */
  readonly path: string
  /** The IP address of the client, if it is known. */
  readonly clientAddress?: string | undefined
  /** The certificate of the client on the TLS connection, if there is one. */
  readonly peerCertificate?: X509Certificate | undefined
}

type PresentedCredentials = DpopCredentials | Extract<BearerCredentials, { kind: 'token' }>

const NO_SCOPES: readonly string[] = []

/** The form in which the metadata document is served. Gates of the same target share this object. */
export interface MetadataAnnouncement {
  /** `true` if the path-suffixed form is served, so that challenges may name it. */
  suffixed: boolean
  /** The scopes of operations that gates of the target require, and that the document names. */
  operationScopes?: readonly string[]
}

/** The outcome of a request that is served without a token. */
export type Admission =
  | { readonly outcome: 'admitted'; readonly context: VerifyContext }
  | Extract<Decision, { outcome: 'failed' }>

/** Creates the context for verifiers and handlers. */
export type ContextFactory = (request: GateRequest) => VerifyContext | Promise<VerifyContext>

/**
 * Decides whether a request is accepted. It works on plain values and does not depend on Express or MCP. Its callers read
 * requests and write its responses.
 */
export class Gate {
  readonly options: ResolvedOAuthOptions
  readonly resource: ProtectedResource
  readonly #hierarchy: ScopeHierarchy
  readonly #knownScopes: readonly string[]
  readonly #makeContext: ContextFactory
  readonly #announced: MetadataAnnouncement
  readonly #replayGuard: StoreGuard
  /** Identifies the issuer of a token whose verifier does not name it. */
  readonly #ownIssuer: string

  constructor(
    options: ResolvedOAuthOptions,
    routerScopes: readonly string[],
    makeContext: ContextFactory,
    announced: MetadataAnnouncement = { suffixed: false },
  ) {
    this.options = options
    this.resource = new ProtectedResource(options, routerScopes)
    this.#knownScopes = [...routerScopes, ...(options.scopesSupported ?? [])]
    this.#hierarchy = new ScopeHierarchy(options.scopeImplies)
    this.#makeContext = makeContext
    this.#announced = announced
    this.#replayGuard = new StoreGuard(options.verifyTimeoutMs)
    this.#ownIssuer = `gate:${options.authorizationServers.join(' ')}`
  }

  /** The issuers, as owners name them, that a user of this gate can have if only the id of the user is known. */
  get userIssuers(): readonly string[] {
    const { issuer } = this.options.gateValues ?? {}
    return [...(issuer === undefined ? [] : [`iss:${issuer}`]), this.#ownIssuer]
  }

  /** Makes challenges name the path-suffixed form of the metadata document. */
  announceSuffixedMetadata(): void {
    this.#announced.suffixed = true
  }

  /** Verifies the token of a request. Scopes are checked separately, by `permits`. Never rejects. */
  authenticate(request: GateRequest): Promise<Decision> {
    const decision = this.#decide(request)
    return this.options.limiter === undefined
      ? decision
      : decision.then((decided) => this.limited(decided, request)).catch(failed)
  }

  /** The checks in their order. Values are awaited only if they are promises, because most are not. Never rejects. */
  async #decide(request: GateRequest): Promise<Decision> {
    const { dpop, gateValues } = this.options
    try {
      // 1. The resource that the request is for.
      const resource = this.resource.uriFor(request)

      // 2. The form of the credentials.
      const { authorization } = request
      const credentials = dpop === undefined ? readBearerToken(authorization) : readAccessToken(authorization)
      if (credentials.kind === 'missing' || credentials.kind === 'malformed') {
        this.#askWithoutToken(request, resource)
        return { outcome: 'refused', reason: credentials.kind }
      }

      // 3. The DPoP proof.
      const proof = dpop && (await this.#proofOf(credentials, request, dpop))
      if (typeof proof === 'string') {
        this.#askWithoutToken(request, resource)
        return refusedProof(proof)
      }

      // 4. The token, by the verifier, and the meaning of its result.
      const made = this.#contextOf(request)
      const context = made instanceof Promise ? await made : made
      const { token } = credentials
      const proofKey = proof?.keyThumbprint
      const verification: Verification = { request, token, context, resource, proofKey, gate: gateValues }
      let auth: AuthInfo | Refusal
      try {
        const returned: unknown = this.options.verifyToken(new VerifyInput(verification))
        const result = isPromiseLike(returned) ? await this.#inTime(returned, 'verifyToken') : returned
        // A getter of the result may throw.
        auth = readVerification(result, verification, this.#ownIssuer) ?? notedRefusal(verification)
      } catch (cause) {
        return verifierFailed(cause)
      }
      if (!(auth instanceof AuthInfo)) return auth

      // 5. The proof must be new. Only proofs of accepted tokens are stored.
      const replayed = proof && (await this.#takeProof(proof))
      if (replayed !== undefined) return replayed

      // 6. `onVerified`.
      const { onVerified } = this.options
      if (onVerified !== undefined) {
        try {
          const returned: unknown = onVerified(verifiedInput(request, context, auth))
          if (isPromiseLike(returned)) await this.#inTime(returned, 'onVerified')
        } catch (cause) {
          return { outcome: 'failed', cause, auth }
        }
      }
      return { outcome: 'accepted', auth, context }
    } catch (cause) {
      // `resource` or `.context()` has failed.
      return failed(cause)
    }
  }

  #contextOf(request: GateRequest): VerifyContext | Promise<VerifyContext> {
    const made = this.#makeContext(request)
    return made instanceof Promise ? this.#inTime(made, '.context()') : made
  }

  #inTime<T>(promise: PromiseLike<T>, name: string): Promise<T> {
    const { verifyTimeoutMs: ms } = this.options
    return within(promise, ms, () => outage(`${name} did not settle within ${ms} ms`))
  }

  /**
   * Creates the context of a request that is served without a token. Nothing is verified: the caller has checked that the
   * request may be served.
   */
  async admit(request: GateRequest): Promise<Admission> {
    try {
      return { outcome: 'admitted', context: await this.#contextOf(request) }
    } catch (cause) {
      return { outcome: 'failed', cause }
    }
  }

  /** Returns a decision whose challenge, if the token is missing, also names the scopes of the operation. */
  withOperationScopes<D extends Decision>(decision: D, operation: readonly string[]): D {
    if (operation.length === 0 || decision.outcome !== 'refused' || decision.reason !== 'missing')
      return decision
    return { ...decision, scopes: unionOfScopes(this.options.scopes, operation) }
  }

  /** Returns `true` if `granted` satisfies the scopes of the endpoint and of the operation. */
  permits(granted: readonly string[], operation: readonly string[] = NO_SCOPES): boolean {
    return (
      this.#hierarchy.satisfies(granted, this.options.scopes) && this.#hierarchy.satisfies(granted, operation)
    )
  }

  /**
   * Returns the refusal for a token with too few scopes. It names the scopes of the endpoint and of the operation.
   * @param granted the scopes of the token
   */
  insufficientScope(
    operation: readonly string[] = NO_SCOPES,
    granted: readonly string[] = NO_SCOPES,
  ): Refusal {
    const scopes = unionOfScopes(this.options.scopes, operation)
    const known = new Set([...scopes, ...this.#knownScopes])
    const kept = this.options.stepUp === 'keep-granted' ? namableScopes(granted) : NO_SCOPES
    return {
      outcome: 'refused',
      reason: 'insufficient_scope',
      scopes,
      challenged: unionOfScopes(scopes, kept),
      granted: granted.filter((scope) => known.delete(scope)),
    }
  }

  /** Returns the decision, or a `rate_limited` refusal if the client's address has caused too many refusals. */
  async limited<D extends Decision>(decision: D, request: GateRequest): Promise<D | Refusal> {
    const { limiter } = this.options
    if (decision.outcome !== 'refused' || limiter === undefined) return decision
    const address = this.clientKey(request)
    if (address === undefined) return decision
    const retryAfterSeconds = await limiter.count(address)
    return retryAfterSeconds === undefined
      ? decision
      : { outcome: 'refused', reason: 'rate_limited', retryAfterSeconds, address }
  }

  /** Returns the response to a request that is not accepted. */
  responseTo(decision: Exclude<Decision, { outcome: 'accepted' }>, request: GateRequest): PlainResponse {
    switch (decision.outcome) {
      case 'refused':
        return refusalResponse(decision, this.options, () => this.#metadataUrl(request))
      case 'unavailable':
        return unavailableResponse(decision.retryAfterSeconds)
      case 'failed':
        return FAILED_RESPONSE
    }
  }

  /** Returns the content of a tool result with the challenge of a refusal; `undefined` for a refusal without a challenge. */
  challengeResult(
    decision: Exclude<Decision, { outcome: 'accepted' }>,
    request: GateRequest,
  ): ChallengeResult | undefined {
    return decision.outcome !== 'refused' || decision.reason === 'rate_limited'
      ? undefined
      : challengeResult(decision, this.options, () => this.#metadataUrl(request))
  }

  #metadataUrl(request: GateRequest): string | undefined {
    try {
      return this.resource.metadataUrl(request, this.#announced.suffixed)
    } catch {
      // The function `resource` failed at its second call. The challenge is sent without the URL.
      return undefined
    }
  }

  /** Checks the proof of a DPoP token. Returns `undefined` for a Bearer token that needs no proof. */
  async #proofOf(
    credentials: PresentedCredentials,
    request: GateRequest,
    dpop: ResolvedDpopOptions,
  ): Promise<CheckedProof | ProofFault | undefined> {
    if (credentials.kind === 'token') return dpop.required ? 'proof_needed' : undefined
    const origin = this.resource.originFor(request)
    const { method, path, dpop: proof } = request
    return await checkProof({ proof, method, origin, path, token: credentials.token }, dpop)
  }

  /** Records the proof. Returns the decision if it was replayed, or if the store is unavailable. */
  async #takeProof({
    replayKey,
    expiresAtSeconds,
    keyThumbprint,
  }: CheckedProof): Promise<Decision | undefined> {
    try {
      const isNew: unknown = await this.#replayGuard.ask(() =>
        this.options.dpop?.replayStore.use(replayKey, expiresAtSeconds, keyThumbprint),
      )
      return isNew === true ? undefined : refusedProof('invalid_dpop_proof')
    } catch (cause) {
      return { outcome: 'unavailable', retryAfterSeconds: 5, cause }
    }
  }

  /** Returns the key by which the client of a request is counted; `undefined` if its address is not known. */
  clientKey(request: RequestSource): string | undefined {
    return countedClient(this.options.clientAddress, request)
  }

  /** Calls the verifier for a request without a token, as the contract requires, and ignores its result. */
  #askWithoutToken(request: GateRequest, resource: string | undefined): void {
    const { gateValues: gate, verifyToken } = this.options
    const ask = (context: VerifyContext): unknown =>
      verifyToken(new VerifyInput({ request, token: undefined, context, resource, gate }))
    try {
      const made = this.#makeContext(request)
      const returned = made instanceof Promise ? made.then(ask) : ask(made)
      if (isPromiseLike(returned)) Promise.resolve(returned).catch(() => undefined)
    } catch {
      // The response is 401 even if a function of the application throws.
    }
  }
}

/** The scopes are a copy, so that the hook cannot change the granted ones. */
function verifiedInput(
  source: GateRequest,
  context: VerifyContext,
  { user, scopes }: AuthInfo,
): OnVerifiedInput {
  return Object.assign(new LazyRequest(source), { context, user, scopes: [...scopes] })
}

function refusedProof(fault: ProofFault): Refusal {
  return { outcome: 'refused', reason: 'invalid', fault, invalidCause: 'key_bound' }
}

function failed(cause: unknown): Decision {
  return { outcome: 'failed', cause }
}

function verifierFailed(cause: unknown): Decision {
  if (VerifierUnavailableError.is(cause))
    return { outcome: 'unavailable', retryAfterSeconds: cause.retryAfterSeconds, cause }
  return { outcome: 'refused', reason: 'invalid', cause, invalidCause: 'verifier' }
}

function notedRefusal({ refusal: note = 'verifier' }: Verification): Refusal {
  if (note === 'expired' || note === 'wrong_resource') return { outcome: 'refused', reason: note }
  return { outcome: 'refused', reason: 'invalid', invalidCause: note }
}
