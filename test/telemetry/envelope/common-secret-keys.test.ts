import { expect } from 'chai'
import * as root from '../../../src/index.ts'
import { COMMON_SECRET_KEYS } from '../../../src/telemetry/index.ts'
import { emitted } from '../../support/telemetry/recording.ts'

describe('COMMON_SECRET_KEYS', () => {
  it('COMMON_SECRET_KEYS is frozen, the same in both entries, and has names with hyphens in every spelling', () => {
    expect(Object.isFrozen(COMMON_SECRET_KEYS)).to.equal(true)
    expect(root.COMMON_SECRET_KEYS).to.equal(COMMON_SECRET_KEYS)
    expect(COMMON_SECRET_KEYS).to.include.members(['password', 'client-secret', 'authorization', 'cookie'])
    for (const name of COMMON_SECRET_KEYS.filter((name) => name.includes('-')))
      expect(COMMON_SECRET_KEYS).to.include.members([
        name.replaceAll('-', '_'),
        name.replace(/-(\w)/g, (_all, letter: string) => letter.toUpperCase()),
      ])
  })

  it('COMMON_SECRET_KEYS removes each key in any case, at any place', () => {
    const keys = COMMON_SECRET_KEYS.flatMap((name) => [name, name.toUpperCase(), `request.${name}`])
    const secrets = Object.fromEntries(keys.map((key) => [key, 'x']))
    const input = { attributes: { ...secrets, ok: 1, nested: [{ ...secrets, ok: 2 }] } }
    const { attributes } = emitted(input, (builder) =>
      builder.withRedaction({ denylistKeys: COMMON_SECRET_KEYS }),
    )
    expect(attributes).to.deep.equal({ ok: 1, nested: [{ ok: 2 }] })
  })
})
