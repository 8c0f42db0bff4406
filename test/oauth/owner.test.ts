import { expect } from 'chai'
import type { AuthInfo } from '../../src/oauth/auth-info.ts'
import { ownerOf } from '../../src/oauth/owner.ts'

const authOf = (token: string, user: unknown): AuthInfo =>
  ({ token, clientId: 'app', scopes: [], user }) as unknown as AuthInfo

describe('ownerOf', () => {
  for (const [what, user] of [
    ['an id', { id: 'ada' }],
    ['a sub', { sub: 'ada' }],
    ['a string', 'ada'],
    ['a number', { id: 0 }],
  ] as const)
    it(`two tokens of a user with ${what} have the same owner`, () => {
      expect(ownerOf(authOf('one', user))).to.equal(ownerOf(authOf('two', user)))
    })

  for (const [what, user] of [
    ['neither id nor sub', {}],
    ['an empty id', { id: '' }],
    ['an empty sub', { sub: '' }],
    ['an empty string', ''],
    ['an id that is an object', { id: {} }],
    ['null as the id and no sub', { id: null }],
    ['an id that String() has made of undefined', { id: String(undefined) }],
    ['an id that String() has made of null', { id: String(null) }],
    ['an id that Number() has made of undefined', { id: Number(undefined) }],
    ['an id of spaces', { id: '  ' }],
    ['an undefined id and no sub', { id: undefined, claims: {} }],
  ] as const)
    it(`two tokens of users with ${what} have different owners`, () => {
      expect(ownerOf(authOf('one', user))).not.to.equal(ownerOf(authOf('two', user)))
    })
})
