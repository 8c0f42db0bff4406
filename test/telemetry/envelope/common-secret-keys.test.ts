import { expect } from 'chai'
import * as root from '../../../src/index.ts'
import { COMMON_SECRET_KEYS } from '../../../src/telemetry/index.ts'
import { emitted } from '../../support/telemetry/recording.ts'

/** The names of the list, without their camel case. */
const NAMES = [
  ...['password', 'passwd', 'secret', 'token', 'access_token', 'refresh_token', 'id_token', 'client_secret'],
  ...['api_key', 'apikey', 'authorization', 'cookie', 'set-cookie', 'private_key', 'session_token'],
  ...['otp', 'pin', 'cvv'],
]

const camelCase = (name: string) => name.replace(/[_-](\w)/g, (_all, letter: string) => letter.toUpperCase())

describe('COMMON_SECRET_KEYS', () => {
  it('COMMON_SECRET_KEYS has every name, as it is and in camel case, and nothing else', () => {
    expect(COMMON_SECRET_KEYS).to.have.members([...new Set([...NAMES, ...NAMES.map(camelCase)])])
    expect(Object.isFrozen(COMMON_SECRET_KEYS)).to.equal(true)
    expect(root.COMMON_SECRET_KEYS).to.equal(COMMON_SECRET_KEYS)
  })

  for (const name of NAMES) {
    it(`COMMON_SECRET_KEYS removes ${name} in every spelling, at any place`, () => {
      const keys = [name, camelCase(name), name.toUpperCase(), `request.${name}`]
      const secrets = Object.fromEntries(keys.map((key) => [key, 'x']))
      const input = { attributes: { ...secrets, ok: 1, nested: [{ ...secrets, ok: 2 }] } }
      const { attributes } = emitted(input, (builder) =>
        builder.withRedaction({ denylistKeys: COMMON_SECRET_KEYS }),
      )
      expect(attributes).to.deep.equal({ ok: 1, nested: [{ ok: 2 }] })
    })
  }
})
