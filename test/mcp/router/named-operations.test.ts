import { expect } from 'chai'
import { MAX_LISTENED_URIS, withCanonicalSubscriptions } from '../../../src/mcp/router/named-operations.ts'

describe('withCanonicalSubscriptions()', () => {
  const listen = (resourceSubscriptions: unknown) => ({
    method: 'subscriptions/listen',
    params: { notifications: { resourceSubscriptions, toolsListChanged: true }, other: 1 },
  })
  const uris = (count: number) => Array.from({ length: count }, (_, index) => `notes://${index}x`)

  it('a subscription to 1,024 resources is allowed, and one to 1,025 is refused', () => {
    const allowed = listen(uris(MAX_LISTENED_URIS))
    expect(withCanonicalSubscriptions(allowed)).to.deep.equal({ message: allowed })
    expect(withCanonicalSubscriptions(listen(uris(MAX_LISTENED_URIS + 1)))).to.deep.equal({
      problem: 'A subscription may name at most 1024 resources',
    })
  })

  it('a subscription names each resource once, by its canonical URI', () => {
    const { message } = withCanonicalSubscriptions(
      listen(['HTTPS://a.example/%7Eb', 'https://a.example/~b']),
    ) as {
      readonly message: unknown
    }
    expect(message).to.have.nested.property('params.notifications.resourceSubscriptions').with.length(1)
    expect(message).to.have.nested.property('params.notifications.toolsListChanged', true)
    expect(message).to.have.nested.property('params.other', 1)
  })

  it('a subscription with an invalid URI is refused', () => {
    expect(withCanonicalSubscriptions(listen(['not a URI']))).to.deep.equal({
      problem: 'A URI of resourceSubscriptions is not valid',
    })
  })

  for (const message of [
    undefined,
    { method: 'subscriptions/listen' },
    listen(undefined),
    listen('notes://a'),
    { ...listen(['not a URI']), method: 'tools/list' },
  ]) {
    it(`a message without a list of resources is returned unchanged: ${JSON.stringify(message)}`, () => {
      expect(withCanonicalSubscriptions(message)).to.deep.equal({ message })
    })
  }
})
