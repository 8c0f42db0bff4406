import { RequestContext, VerifyInput } from '../../src/oauth/inputs.ts'
import { AUDIENCE } from './tokens.ts'

/** The input of a verifier in a gate for `resource`. */
export function verifyInput(
  token: string | undefined,
  resource: string | undefined = AUDIENCE,
  proofKey?: string,
): VerifyInput {
  const request = { request: new Request(AUDIENCE) }
  return new VerifyInput({ request, token, context: new RequestContext(request, {}), resource, proofKey })
}
