import type { X509Certificate } from 'node:crypto'
import { isObject } from '../options/value-kinds.ts'
import type { AuthInfo } from './auth-info.ts'
import type { InvalidCause } from './decision.ts'
import type { GateValues } from './gate-values.ts'
import type { VerifyContext, VerifyTokenInput } from './options.ts'

/** An object whose getter creates the web-standard request when it is first read. */
export interface RequestSource {
  readonly request: Request
  /** The certificate of the client on the TLS connection, if there is one. */
  readonly peerCertificate?: X509Certificate | undefined
  /** The IP address of the client, if it is known. */
  readonly clientAddress?: string | undefined
}

/** One property descriptor for all objects, so that objects of a class share one shape. */
let requestProperty: PropertyDescriptor & ThisType<LazyRequest>
/** Set by the class below: only its static block can read the private field. */
let sourceOf: (request: LazyRequest) => RequestSource

/**
 * The base of objects with a web-standard request, which is created only when read. It is an own property, so that
 * verifiers can pass on a copy: `verify({ ...input, bearerToken })`.
 */
export class LazyRequest {
  declare readonly request: Request
  readonly #source: RequestSource

  constructor(source: RequestSource) {
    this.#source = source
    Object.defineProperty(this, 'request', requestProperty)
  }

  static {
    requestProperty = {
      enumerable: true,
      get() {
        return this.#source.request
      },
    }
    sourceOf = (request) => request.#source
  }
}

/** Set by the class below: only its static block can read the private field. */
let setInput: (context: VerifyContext, input: VerifyInput) => void
let inputOf: (context: VerifyContext) => VerifyInput | undefined
let contextSource: (context: VerifyContext) => RequestSource | undefined

/** Returns the request that a context was made for; `undefined` for a context of the application. */
export function requestOf(context: VerifyContext): RequestSource | undefined {
  return contextSource(context)
}

/**
 * The context that verifiers and handlers share. Its `request` is inherited, since copies of a context are rare, and an own
 * property takes a tenth of the time of the gate.
 */
export class RequestContext<App> implements VerifyContext<App> {
  readonly context: App
  readonly #source: RequestSource
  /** The input of the verifier. */
  #input: VerifyInput | undefined

  constructor(source: RequestSource, context: App) {
    this.#source = source
    this.context = context
  }

  get request(): Request {
    return this.#source.request
  }

  static {
    setInput = (context, input) => {
      if (#input in context) context.#input = input
    }
    contextSource = (context) => (isObject(context) && #source in context ? context.#source : undefined)
    inputOf = (context) => (isObject(context) && #input in context ? context.#input : undefined)
  }
}

/** The argument of `onVerified`. */
export class OnVerifiedInput extends LazyRequest {
  readonly context: VerifyContext
  readonly user: unknown
  readonly scopes: readonly string[]

  constructor(request: RequestSource, context: VerifyContext, auth: AuthInfo) {
    super(request)
    this.context = context
    this.user = auth.user
    // A copy, so that the hook cannot change the granted scopes.
    this.scopes = [...auth.scopes]
  }
}

/** The reason for which a verifier of this package rejects a token, or the cause of the reason `invalid`. */
export type RefusalNote = 'expired' | 'wrong_resource' | InvalidCause

/** Set by the class below: only its static block can read the private fields. */
let setRefusal: (input: VerifyInput, refusal: RefusalNote) => void
let refusalOf: (input: VerifyInput) => RefusalNote | undefined
let resourceOf: (input: VerifyInput) => string | undefined
let setIssuer: (input: VerifyInput, issuer: string | undefined) => void
let issuerOf: (input: VerifyInput) => string | undefined
let gateOf: (input: VerifyInput) => GateValues | undefined
let tokenOf: (input: VerifyInput) => string | undefined
let proofKeyOf: (input: VerifyInput) => string | undefined
let contextOf: (input: VerifyInput) => VerifyContext
let setCertificate: (input: VerifyInput, thumbprint: string) => void
let certificateOf: (input: VerifyInput) => string | undefined

/**
 * The argument of `verifyToken`. Verifiers of this package read more from it: the resource of the request and the values of
 * the gate. They also write to it: the reason of a refusal, which the result `undefined` cannot carry, and the issuer. If
 * the verifier of an application passes on a copy, its context leads back to the original.
 */
export class VerifyInput extends LazyRequest implements VerifyTokenInput {
  readonly bearerToken: string | undefined
  readonly context: VerifyContext
  declare readonly proofKey?: string
  readonly #resource: string | undefined
  #refusal: RefusalNote | undefined
  #issuer: string | undefined
  #certificate: string | undefined
  readonly #gate: GateValues | undefined
  /** Again, since a verifier may write to the public members. */
  readonly #token: string | undefined
  readonly #context: VerifyContext
  readonly #proofKey: string | undefined

  constructor(
    request: RequestSource,
    bearerToken: string | undefined,
    context: VerifyContext,
    resource: string | undefined,
    proofKey?: string,
    gate?: GateValues,
  ) {
    super(request)
    this.bearerToken = bearerToken
    this.context = context
    this.#resource = resource
    this.#gate = gate
    this.#token = bearerToken
    this.#context = context
    this.#proofKey = proofKey
    if (proofKey !== undefined) this.proofKey = proofKey
    setInput(context, this)
  }

  static {
    setRefusal = (input, refusal) => {
      input.#refusal = refusal
    }
    refusalOf = (input) => input.#refusal
    resourceOf = (input) => input.#resource
    setIssuer = (input, issuer) => {
      input.#issuer = issuer
    }
    issuerOf = (input) => input.#issuer
    gateOf = (input) => input.#gate
    tokenOf = (input) => input.#token
    proofKeyOf = (input) => input.#proofKey
    contextOf = (input) => input.#context
    setCertificate = (input, thumbprint) => {
      input.#certificate = thumbprint
    }
    certificateOf = (input) => input.#certificate
  }
}

/** Returns the token that the gate has put into `input`. */
export function presentedToken(input: VerifyInput): string | undefined {
  return tokenOf(input)
}

/** Returns the thumbprint of the key of the proof that the gate has put into `input`. */
export function presentedProofKey(input: VerifyInput): string | undefined {
  return proofKeyOf(input)
}

/** Returns the context that the gate has put into `input`. */
export function sharedContext(input: VerifyInput): VerifyContext {
  return contextOf(input)
}

/** Notes for the gate why a verifier rejects the token. */
export function noteRefusal(input: VerifyTokenInput, refusal: RefusalNote): void {
  const original = originalOf(input)
  if (original !== undefined) setRefusal(original, refusal)
}

/** Returns the reason that was noted for this request. */
export function refusalNote(input: VerifyTokenInput): RefusalNote | undefined {
  const original = originalOf(input)
  return original && refusalOf(original)
}

/**
 * Notes for the gate who issued an accepted token.
 * @param issuer begins with the kind of identity, such as `iss:https://…`
 */
export function noteIssuer(input: VerifyTokenInput, issuer: string | undefined): void {
  const original = originalOf(input)
  if (original !== undefined) setIssuer(original, issuer)
}

/** Returns the issuer that was noted for this request. */
export function issuerNote(input: VerifyTokenInput): string | undefined {
  const original = originalOf(input)
  return original && issuerOf(original)
}

/** Notes for the gate the thumbprint of the client's certificate, as a verifier has read it. */
export function noteCertificate(input: VerifyTokenInput, thumbprint: string): void {
  const original = originalOf(input)
  if (original !== undefined) setCertificate(original, thumbprint)
}

/** Returns the thumbprint of the client's certificate that was noted for this request. */
export function certificateNote(input: VerifyTokenInput): string | undefined {
  const original = originalOf(input)
  return original && certificateOf(original)
}

/** Returns the certificate of the client on the TLS connection. */
export function peerCertificateOf(input: VerifyTokenInput): X509Certificate | undefined {
  const original = originalOf(input)
  return original && sourceOf(original).peerCertificate
}

/** Returns the resource that the calling gate protects; `undefined` if it depends on the request's URL. */
export function configuredResource(input: VerifyTokenInput): string | undefined {
  const original = originalOf(input)
  return original && resourceOf(original)
}

/** Returns the values of the calling gate; `undefined` if the verifier is used outside a gate. */
export function gateValuesIn(input: VerifyTokenInput): GateValues | undefined {
  const original = originalOf(input)
  return original && gateOf(original)
}

/** Returns the input that the gate created, if `input` is that object or a copy of it. */
function originalOf(input: VerifyTokenInput): VerifyInput | undefined {
  return input instanceof VerifyInput ? input : inputOf(input.context)
}
