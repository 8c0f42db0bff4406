import { expect } from 'chai'
import {
  MAX_SUBSCRIBED_LENGTH,
  MAX_SUBSCRIPTIONS,
  SubscribedUris,
} from '../../../src/mcp/operations/subscriptions.ts'

describe('SubscribedUris', () => {
  it('SubscribedUris keeps 1,024 URIs, and ignores further ones until one is removed', () => {
    const uris = new SubscribedUris()
    for (let index = 0; index <= MAX_SUBSCRIPTIONS; index++) uris.add(`a:${index}`)
    expect(uris.has(`a:${MAX_SUBSCRIPTIONS - 1}`)).to.equal(true)
    expect(uris.has(`a:${MAX_SUBSCRIPTIONS}`)).to.equal(false)
    uris.delete('a:0')
    uris.add('b:')
    expect([uris.has('a:0'), uris.has('b:')]).to.deep.equal([false, true])
  })

  it('SubscribedUris keeps URIs of 131,072 characters together, each counted once', () => {
    const uris = new SubscribedUris()
    const [half, rest] = ['x'.repeat(MAX_SUBSCRIBED_LENGTH / 2), 'y'.repeat(MAX_SUBSCRIBED_LENGTH / 2)]
    uris.add(half)
    uris.add(half)
    uris.add(`${rest}y`)
    expect(uris.has(`${rest}y`)).to.equal(false)
    uris.add(rest)
    expect(uris.has(rest)).to.equal(true)
    uris.add('z')
    expect(uris.has('z')).to.equal(false)
  })

  it('SubscribedUris regains exactly the length of a URI that is removed', () => {
    const uris = new SubscribedUris()
    const [half, rest] = ['x'.repeat(MAX_SUBSCRIBED_LENGTH / 2), 'y'.repeat(MAX_SUBSCRIBED_LENGTH / 2)]
    for (const uri of [half, rest]) uris.add(uri)
    uris.delete(half)
    uris.delete(half)
    uris.add(`${half}x`)
    expect(uris.has(`${half}x`)).to.equal(false)
    uris.add(half)
    expect(uris.has(half)).to.equal(true)
  })
})
