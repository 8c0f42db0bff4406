import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler } from '../../../src/index.ts'
import { MAX_LISTENED_URIS, withCanonicalSubscriptions } from '../../../src/mcp/router/named-operations.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, modern, listen as serve } from '../../support/mcp/wire.ts'

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

describe('a subscription to many resources', () => {
  const router = KitMcpRouter.create()
    .resource('secret', { uri: 'notes://secret', scopes: ['mcp:write'] }, () => 'x')
    .resourceTemplate('note', { uriTemplate: 'notes://{id}' }, () => 'x')
  const adapter = createMcpAdapter({ router, oauth: oauth() })
  for (const [gate, handler] of [
    ['mcpHandler', mcpHandler(adapter)],
    ['mcpAuth', mcpAuth(oauth(), { scopes: { resources: { 'notes://secret': ['mcp:write'] } } })],
  ] as const) {
    for (const count of [1, MAX_LISTENED_URIS, MAX_LISTENED_URIS + 1]) {
      const isRefused = count > MAX_LISTENED_URIS
      const outcome = isRefused ? 'is refused, because there are too many' : 'needs its scopes'
      it(`the last of ${count} resources of a subscription ${outcome} at ${gate}`, async () => {
        const served = await serve((req, res) => handler(req, res, () => res.end()))
        try {
          const resourceSubscriptions = [
            ...Array.from({ length: count - 1 }, (_, index) => `notes://${index}`),
            'notes://secret',
          ]
          const params = { notifications: { resourceSubscriptions } }
          const answer = await served.send(modern('subscriptions/listen', params, bearer('reader')))
          if (isRefused) {
            expect(answer.message.error.message).to.match(/at most 1024 resources|resourceSubscriptions/)
            expect(answer.message.error.code).to.equal(-32_602)
          } else {
            expect(answer.status).to.equal(403)
            expect(answer.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:write"')
          }
        } finally {
          await served.close()
        }
      })
    }
  }
})
