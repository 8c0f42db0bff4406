import type { AuthInfo } from './auth-info.ts'
import type { VerifyContext, VerifyTokenInput } from './options.ts'

/** Where the web-standard request comes from: a getter that makes it when it is first read. */
export interface RequestSource {
  readonly request: Request
}

/** What has the web-standard request, which is made only when read. */
export class HasRequest {
  readonly #request: RequestSource

  constructor(request: RequestSource) {
    this.#request = request
  }

  get request(): Request {
    return this.#request.request
  }
}

/** The context that verifiers and handlers share. */
export class RequestContext<App> extends HasRequest implements VerifyContext<App> {
  readonly context: App

  constructor(request: RequestSource, context: App) {
    super(request)
    this.context = context
  }
}

/** What `onVerified` gets. */
export class OnVerifiedInput extends HasRequest {
  readonly context: VerifyContext
  readonly user: unknown
  readonly scopes: readonly string[]

  constructor(request: RequestSource, context: VerifyContext, auth: AuthInfo) {
    super(request)
    this.context = context
    this.user = auth.user
    this.scopes = auth.scopes
  }
}

/** Why a verifier of this package refuses, where that is more than that the token is not valid. */
export type RefusalNote = 'expired' | 'wrong_resource'

/** Set by the class below, which alone can see inside. */
let note: (input: VerifyTokenInput, refusal: RefusalNote) => void
let noted: (input: VerifyTokenInput) => RefusalNote | undefined
let resourceOf: (input: VerifyTokenInput) => string | undefined

/**
 * What `verifyToken` gets. Verifiers of this package find two things more in it: the resource that the gate is
 * configured for, and a place to leave the reason of a refusal, for which `undefined` has no room.
 */
export class VerifyInput extends HasRequest implements VerifyTokenInput {
  readonly bearerToken: string | undefined
  readonly context: VerifyContext
  readonly #resource: string | undefined
  readonly #proofKey: string | undefined
  #refusal: RefusalNote | undefined

  constructor(
    request: RequestSource,
    bearerToken: string | undefined,
    context: VerifyContext,
    resource: string | undefined,
    proofKey?: string,
  ) {
    super(request)
    this.bearerToken = bearerToken
    this.context = context
    this.#resource = resource
    this.#proofKey = proofKey
  }

  get proofKey(): string | undefined {
    return this.#proofKey
  }

  static {
    note = (input, refusal) => {
      if (#refusal in input) input.#refusal = refusal
    }
    noted = (input) => (#refusal in input ? input.#refusal : undefined)
    resourceOf = (input) => (#resource in input ? input.#resource : undefined)
  }
}

/** Tells the gate why a verifier refuses. */
export function noteRefusal(input: VerifyTokenInput, refusal: RefusalNote): void {
  note(input, refusal)
}

/** What was noted for this request, if anything. */
export function refusalNote(input: VerifyTokenInput): RefusalNote | undefined {
  return noted(input)
}

/** The resource that the asking gate is configured for. */
export function configuredResource(input: VerifyTokenInput): string | undefined {
  return resourceOf(input)
}
