import type { Answer } from './answer.ts'
import { AuthInfo } from './auth-info.ts'
import { type BearerCredentials, readBearerToken } from './authorization-header.ts'
import { bearerChallenge } from './challenge.ts'
import { VerifierUnavailableError } from './errors.ts'
import { OnVerifiedInput, refusalNote, VerifyInput } from './inputs.ts'
import type { ResolvedOAuthOptions, VerifiedToken, VerifyContext } from './options.ts'
import { ProtectedResource } from './protected-resource.ts'
import { grantedScopes, ScopeHierarchy, unionOfScopes } from './scope.ts'

/** What the gate looks at. Members other than `authorization` are read only when needed. */
export interface GateRequest {
  /** The `Authorization` values as they came. */
  readonly authorization: string | readonly string[] | undefined
  /** The web-standard request, without its body. */
  readonly request: Request
  /** Origin of the request's URL; undefined when the request names no usable host. */
  readonly origin: string | undefined
  /** Path of the request's URL. */
  readonly path: string
}

export type RefusalReason =
  | 'missing'
  | 'malformed'
  | 'invalid'
  | 'expired'
  | 'wrong_resource'
  | 'insufficient_scope'

/** What the gate made of a request. */
export type Decision =
  | { readonly outcome: 'accepted'; readonly auth: AuthInfo; readonly context: VerifyContext }
  | Refusal
  | { readonly outcome: 'unavailable'; readonly retryAfterSeconds: number; readonly cause: unknown }
  | { readonly outcome: 'failed'; readonly cause: unknown }

export type Refusal =
  | {
      readonly outcome: 'refused'
      readonly reason: Exclude<RefusalReason, 'insufficient_scope'>
      readonly cause?: unknown
    }
  | { readonly outcome: 'refused'; readonly reason: 'insufficient_scope'; readonly scopes: readonly string[] }

/** The only texts that ever stand in `error_description`: nothing a client, a token or a verifier said. */
const DESCRIPTIONS: Readonly<Record<RefusalReason, string>> = {
  missing: 'An access token is needed',
  malformed: 'The Authorization header does not hold one bearer token',
  invalid: 'The access token is not valid',
  expired: 'The access token has expired',
  wrong_resource: 'The access token is for another resource',
  insufficient_scope: 'The access token lacks a scope that this request needs',
}

const JSON_HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

const NO_SCOPES: readonly string[] = []

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
  /** Whether the path-suffixed metadata document is served, so that challenges may name it. */
  #servesSuffixedMetadata = false

  constructor(options: ResolvedOAuthOptions, routerScopes: readonly string[], makeContext: ContextFactory) {
    this.options = options
    this.resource = new ProtectedResource(options, routerScopes)
    this.#hierarchy = new ScopeHierarchy(options.scopeImplies)
    this.#makeContext = makeContext
  }

  /** Challenges name the path-suffixed form from now on. */
  announceSuffixedMetadata(): void {
    this.#servesSuffixedMetadata = true
  }

  /** Verifies the token of a request. Scopes are judged apart, by `permits`. */
  async authenticate(request: GateRequest): Promise<Decision> {
    const credentials = readBearerToken(request.authorization)
    if (credentials.kind !== 'token') {
      this.#askWithoutToken(request)
      return refusedFor(credentials)
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
      const input = new VerifyInput(request, credentials.token, context, this.options.resource)
      verdict = judge(await this.#verify(input), this.options.resource) ?? notedRefusal(input)
    } catch (cause) {
      if (VerifierUnavailableError.is(cause)) {
        return { outcome: 'unavailable', retryAfterSeconds: cause.retryAfterSeconds, cause }
      }
      return { outcome: 'refused', reason: 'invalid', cause }
    }
    if (!('token' in verdict)) return verdict
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
    const error = refusal.reason === 'insufficient_scope' ? 'insufficient_scope' : 'invalid_token'
    const scopes = refusal.reason === 'insufficient_scope' ? refusal.scopes : this.options.scopes
    const errorDescription = DESCRIPTIONS[refusal.reason]
    const challenge = bearerChallenge({
      realm: this.options.realm,
      error,
      scopes,
      resourceMetadata: this.resource.metadataUrl(request.origin, request.path, this.#servesSuffixedMetadata),
      errorDescription,
    })
    return {
      status: refusal.reason === 'insufficient_scope' ? 403 : 401,
      headers: { ...JSON_HEADERS, 'WWW-Authenticate': challenge },
      body: JSON.stringify({
        error,
        error_description: errorDescription,
        ...(refusal.reason === 'insufficient_scope' && { scope: scopes.join(' ') }),
      }),
    }
  }

  #verify(input: VerifyInput): unknown {
    const answered = this.options.verifyToken(input)
    if (!isPromiseLike(answered)) return answered
    return withDeadline(answered, this.options.verifyTimeoutMs)
  }

  /** The verifier hears of requests without a token too; what it says, or when, changes nothing. */
  #askWithoutToken(request: GateRequest): void {
    const ask = (context: VerifyContext): unknown =>
      this.options.verifyToken(new VerifyInput(request, undefined, context, this.options.resource))
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

type Verdict = { readonly token: AuthInfoParts } | Refusal
type AuthInfoParts = ConstructorParameters<typeof AuthInfo>[1]

function notedRefusal(input: VerifyInput): Refusal {
  return { outcome: 'refused', reason: refusalNote(input) ?? 'invalid' }
}

/** What a verifier's result means; undefined when it does not say that the token is valid. */
function judge(result: unknown, configuredResource: string | undefined): Verdict | undefined {
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
  const clientId = given.clientId ?? undefined
  const extra = given.extra ?? undefined
  return {
    token: {
      clientId: clientId === undefined ? '' : String(clientId),
      scopes: grantedScopes(given.scopes),
      expiresAt,
      resource:
        resource === undefined || !URL.canParse(String(resource)) ? undefined : new URL(String(resource)),
      user: given.user ?? undefined,
      extra: typeof extra === 'object' ? { ...extra } : {},
    },
  }
}

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}

function withDeadline(asked: PromiseLike<unknown>, timeoutMs: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new VerifierUnavailableError(`verifyToken has not answered within ${timeoutMs} ms`))
    }, timeoutMs)
    // A thenable that is no promise may throw, or give another promise in its turn.
    Promise.resolve(asked).then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
