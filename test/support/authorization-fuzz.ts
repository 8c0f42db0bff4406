import { expect } from 'chai'
import fc from 'fast-check'
import type { PlainResponse } from '../../src/base/http/plain-response.ts'
import { Gate, type GateRequest } from '../../src/oauth/gate.ts'
import { RequestContext } from '../../src/oauth/inputs.ts'
import { resolveOAuthOptions } from '../../src/oauth/options.ts'
import { allowedToken, authorizations, proofs } from './authorization.ts'
import { parseChallenges } from './challenge.ts'
import { oauthOptions } from './gate-app.ts'

/** Challenges that the parser has accepted. There are only a few different ones. */
const wellFormed = new Set<string>()

/** Expects the response to a rejected header to be complete and short, with challenges that can be parsed. */
export function expectRefusal(status: number, challenge: string, body: string): void {
  expect(status).to.equal(401)
  expect(body.length).to.be.below(300)
  const { error } = JSON.parse(body)
  expect(error).to.equal('invalid_token')
  if (wellFormed.has(challenge)) return
  expect(challenge.length).to.be.below(600)
  const [bearer, dpop, ...others] = parseChallenges(challenge)
  expect(bearer?.scheme).to.equal('Bearer')
  expect(bearer?.parameters).to.include({ realm: 'mcp-server', error: 'invalid_token' })
  expect(bearer?.parameters.error_description).to.match(/^[A-Za-z ]+$/)
  expect(dpop?.scheme).to.be.oneOf(['DPoP', undefined])
  expect(others).to.deep.equal([])
  wellFormed.add(challenge)
}

/**
 * Sends `count` random headers to a gate. Its verifier accepts every token except the one that RFC 6750 finds in the
 * header. The gate must therefore reject every header.
 */
export async function fuzzGate(count: number, seed: number): Promise<void> {
  let token: string | undefined
  const gates = (['off', 'allowed', 'required'] as const).map((dpop) => {
    const verifyToken = ({ bearerToken }: { bearerToken: string | undefined }) => ({
      valid: bearerToken !== token,
    })
    return new Gate(
      resolveOAuthOptions(oauthOptions({ verifyToken, dpop })),
      [],
      (request) => new RequestContext(request, {}),
    )
  })
  const given = fc.tuple(authorizations, proofs)
  for (const [index, [authorization, dpop]] of fc.sample(given, { numRuns: count, seed }).entries()) {
    token = typeof authorization === 'string' ? allowedToken(authorization) : undefined
    const request: GateRequest = {
      authorization,
      dpop,
      method: 'POST',
      origin: 'https://mcp.example.com',
      path: '/mcp',
      get request() {
        return new Request('https://mcp.example.com/mcp')
      },
    }
    const gate = gates[index % gates.length] as Gate
    const decision = await gate.authenticate(request)
    if (decision.outcome === 'accepted') throw new Error(`accepted: ${JSON.stringify(authorization)}`)
    const { status, headers, body } = gate.responseTo(decision, request) as Required<PlainResponse>
    expectRefusal(status, headers['WWW-Authenticate'] ?? '', body)
  }
}
