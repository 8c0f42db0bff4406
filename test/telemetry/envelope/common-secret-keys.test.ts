import { expect } from 'chai'
import * as root from '../../../src/index.ts'
import { COMMON_SECRET_KEYS } from '../../../src/telemetry/index.ts'
import { emitted } from '../../support/telemetry/recording.ts'

/** The names of the list, with hyphens. */
const NAMES = [
  ...['password', 'new-password', 'passwd', 'pwd', 'passphrase', 'otp', 'pin', 'cvv', 'credentials'],
  ...['secret', 'client-secret', 'secret-key', 'private-key', 'client-assertion', 'code-verifier'],
  ...['token', 'access-token', 'refresh-token', 'id-token', 'api-token', 'session-token', 'session-id'],
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-auth-token', 'x-csrf-token'],
  ...['api-key', 'apikey', 'x-api-key'],
]

const camelCase = (name: string) => name.replace(/[_-](\w)/g, (_all, letter: string) => letter.toUpperCase())

const spellingsOf = (name: string) => [name, name.replaceAll('-', '_'), camelCase(name)]

describe('COMMON_SECRET_KEYS', () => {
  it('COMMON_SECRET_KEYS has every name with hyphens, with underscores, and in camel case, and nothing else', () => {
    expect(COMMON_SECRET_KEYS).to.have.members([...new Set(NAMES.flatMap(spellingsOf))])
    expect(Object.isFrozen(COMMON_SECRET_KEYS)).to.equal(true)
    expect(root.COMMON_SECRET_KEYS).to.equal(COMMON_SECRET_KEYS)
  })

  for (const name of NAMES) {
    it(`COMMON_SECRET_KEYS removes ${name} in every spelling, at any place`, () => {
      const keys = [...spellingsOf(name), name.toUpperCase(), `request.${name}`]
      const secrets = Object.fromEntries(keys.map((key) => [key, 'x']))
      const input = { attributes: { ...secrets, ok: 1, nested: [{ ...secrets, ok: 2 }] } }
      const { attributes } = emitted(input, (builder) =>
        builder.withRedaction({ denylistKeys: COMMON_SECRET_KEYS }),
      )
      expect(attributes).to.deep.equal({ ok: 1, nested: [{ ok: 2 }] })
    })
  }
})
