import type { X509Certificate } from 'node:crypto'
import { isObject } from '../base/options/value-kinds.ts'
import type { InvalidCause } from './decision.ts'
import type { GateValues, VerifyContext, VerifyTokenInput } from './gate-values.ts'

/** An object whose getter creates the web-standard request when it is first read. */
export interface RequestSource {
  readonly request: Request
  /** The certificate of the client on the TLS connection, if there is one. */
  readonly peerCertificate?: X509Certificate | undefined
  /** The IP address of the client, if it is known. */
  readonly clientAddress?: string | undefined
}

/**
 * The base of objects with a web-standard request, which is created only when read. It is an own property, so that
 * verifiers can pass on a copy: `verify({ ...input, bearerToken })`.
 */
export class LazyRequest {
  declare readonly request: Request
  readonly #source: RequestSource

  /** One property descriptor for all objects, so that objects of a class share one shape. */
  static readonly #property: PropertyDescriptor & ThisType<LazyRequest> = {
    enumerable: true,
    get() {
      return this.#source.request
    },
  }

  constructor(source: RequestSource) {
    this.#source = source
    Object.defineProperty(this, 'request', LazyRequest.#property)
  }
}

/** The reason for which a verifier of this package rejects a token, or the cause of the reason `invalid`. */
export type RefusalNote = 'expired' | 'wrong_resource' | InvalidCause

/** The verification of one token: the knowledge of the gate, and the notes of this package's verifiers for the gate. */
export interface Verification {
  readonly request: RequestSource
  readonly token: string | undefined
  readonly context: VerifyContext
  /** The resource that the gate protects; `undefined` if it depends on the request's URL. */
  readonly resource: string | undefined
  /** The thumbprint of the key of the DPoP proof. */
  readonly proofKey?: string | undefined
  readonly gate?: GateValues | undefined
  /** The reason why a verifier rejects the token, which its result `undefined` cannot contain. */
  refusal?: RefusalNote | undefined
  /** Identifies who issued an accepted token. It begins with the kind of identity, such as `iss:https://…`. */
  issuer?: string | undefined
  /** The thumbprint of the client's certificate, as a verifier has read it. */
  certificate?: string | undefined
}

/**
 * The context that verifiers and handlers share. Its `request` is inherited, since copies of a context are rare, and an own
 * property takes a tenth of the time of the gate.
 */
export class RequestContext<App> implements VerifyContext<App> {
  readonly context: App
  readonly #source: RequestSource
  #verification: Verification | undefined

  constructor(source: RequestSource, context: App) {
    this.#source = source
    this.context = context
  }

  get request(): Request {
    return this.#source.request
  }

  /** Links the context of a verification to it. */
  static link(verification: Verification): void {
    const { context } = verification
    if (#verification in context) context.#verification = verification
  }

  static verificationOf(context: unknown): Verification | undefined {
    return isObject(context) && #verification in context ? context.#verification : undefined
  }

  /** Returns the request that a context was made for; `undefined` for a context of the application. */
  static requestOf(context: unknown): RequestSource | undefined {
    return isObject(context) && #source in context ? context.#source : undefined
  }
}

/** The argument of `verifyToken`. */
export class VerifyInput extends LazyRequest implements VerifyTokenInput {
  readonly bearerToken: string | undefined
  readonly context: VerifyContext
  declare readonly proofKey?: string

  constructor(verification: Verification) {
    super(verification.request)
    this.bearerToken = verification.token
    this.context = verification.context
    if (verification.proofKey !== undefined) this.proofKey = verification.proofKey
    RequestContext.link(verification)
  }
}

/**
 * Returns the verification of an input, to which its context leads, also from a copy of the input. Outside a gate, nothing is known,
 * and notes have no effect.
 */
export function verificationOf({ context }: VerifyTokenInput): Partial<Verification> {
  return RequestContext.verificationOf(context) ?? {}
}

/** Notes for the gate why a verifier rejects the token. Returns the result of the verifier. */
export function rejected(input: VerifyTokenInput, refusal: RefusalNote): undefined {
  verificationOf(input).refusal = refusal
  return undefined
}
