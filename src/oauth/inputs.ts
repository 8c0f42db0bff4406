import type { AuthInfo } from './auth-info.ts'
import type { GateValues } from './gate-values.ts'
import type { VerifyContext, VerifyTokenInput } from './options.ts'

/** Where the web-standard request comes from: a getter that makes it when it is first read. */
export interface RequestSource {
  readonly request: Request
}

/** One getter for all, so that objects of a class keep one shape. */
let requestProperty: PropertyDescriptor & ThisType<LazyRequest>

/**
 * What has the web-standard request, which is made only when read. It is a property of the object's own, so that
 * verifiers can hand on a copy: `verify({ ...input, bearerToken })`.
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
  }
}

/** Set by the class below, which alone can see inside. */
let leaveWith: (context: VerifyContext, input: VerifyInput) => void
let leftWith: (context: VerifyContext) => VerifyInput | undefined

/** The context that verifiers and handlers share. */
export class RequestContext<App> extends LazyRequest implements VerifyContext<App> {
  readonly context: App
  /** What the verifier was asked with. */
  #input: VerifyInput | undefined

  constructor(request: RequestSource, context: App) {
    super(request)
    this.context = context
  }

  static {
    leaveWith = (context, input) => {
      if (#input in context) context.#input = input
    }
    leftWith = (context) => (isObject(context) && #input in context ? context.#input : undefined)
  }
}

/** What `onVerified` gets. */
export class OnVerifiedInput extends LazyRequest {
  readonly context: VerifyContext
  readonly user: unknown
  readonly scopes: readonly string[]

  constructor(request: RequestSource, context: VerifyContext, auth: AuthInfo) {
    super(request)
    this.context = context
    this.user = auth.user
    // What a hook does to a list changes nothing about what was granted.
    this.scopes = [...auth.scopes]
  }
}

/** Why a verifier of this package refuses, where that is more than that the token is not valid. */
export type RefusalNote = 'expired' | 'wrong_resource'

/** Set by the class below, which alone can see inside. */
let note: (input: VerifyInput, refusal: RefusalNote) => void
let noted: (input: VerifyInput) => RefusalNote | undefined
let resourceOf: (input: VerifyInput) => string | undefined
let setIssuer: (input: VerifyInput, issuer: string | undefined) => void
let issuerOf: (input: VerifyInput) => string | undefined
let gateOf: (input: VerifyInput) => GateValues | undefined

/**
 * What `verifyToken` gets. Verifiers of this package find two things more in it: the resource that the gate is
 * configured for, and a place to leave the reason of a refusal, for which `undefined` has no room. A copy that an
 * application's own verifier hands on leads to both by its context.
 */
export class VerifyInput extends LazyRequest implements VerifyTokenInput {
  readonly bearerToken: string | undefined
  readonly context: VerifyContext
  declare readonly proofKey?: string
  readonly #resource: string | undefined
  #refusal: RefusalNote | undefined
  #issuer: string | undefined
  readonly #gate: GateValues | undefined

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
    if (proofKey !== undefined) this.proofKey = proofKey
    leaveWith(context, this)
  }

  static {
    note = (input, refusal) => {
      input.#refusal = refusal
    }
    noted = (input) => input.#refusal
    resourceOf = (input) => input.#resource
    setIssuer = (input, issuer) => {
      input.#issuer = issuer
    }
    issuerOf = (input) => input.#issuer
    gateOf = (input) => input.#gate
  }
}

/** Tells the gate why a verifier refuses. */
export function noteRefusal(input: VerifyTokenInput, refusal: RefusalNote): void {
  const asked = originalOf(input)
  if (asked !== undefined) note(asked, refusal)
}

/** What was noted for this request, if anything. */
export function refusalNote(input: VerifyTokenInput): RefusalNote | undefined {
  const asked = originalOf(input)
  return asked && noted(asked)
}

/** Tells the gate who issued the token that is accepted. @param issuer names the kind first: `iss:https://…` */
export function noteIssuer(input: VerifyTokenInput, issuer: string | undefined): void {
  const asked = originalOf(input)
  if (asked !== undefined) setIssuer(asked, issuer)
}

/** The issuer that was noted for this request, if one was. */
export function issuerNote(input: VerifyTokenInput): string | undefined {
  const asked = originalOf(input)
  return asked && issuerOf(asked)
}

/** The resource that the asking gate is configured for. */
export function configuredResource(input: VerifyTokenInput): string | undefined {
  const asked = originalOf(input)
  return asked && resourceOf(asked)
}

/** The values of the asking gate; `undefined` if no gate asks. */
export function gateValuesIn(input: VerifyTokenInput): GateValues | undefined {
  const asked = originalOf(input)
  return asked && gateOf(asked)
}

/** What the gate asked with, when `input` is it or a copy of it. */
function originalOf(input: VerifyTokenInput): VerifyInput | undefined {
  return input instanceof VerifyInput ? input : leftWith(input.context)
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
