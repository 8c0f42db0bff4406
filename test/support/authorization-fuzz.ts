import { expect } from 'chai'
import { parseChallenges } from './challenge.ts'

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
