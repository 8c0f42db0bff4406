import { optionChecksOf } from '../../../src/base/options/option-checks.ts'
import { neededScopes } from '../../../src/mcp/router/named-operations.ts'
import { checkOperationScopes } from '../../../src/mcp/router/operation-scopes.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { findResource } from '../../../src/mcp/router/router-table.ts'
import { canonicalUri } from '../../../src/mcp/router/uris/canonical-uri.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

const TEMPLATES = [
  'log://{year}-{month}-{day}',
  'log://{a}{b}{c}{d}',
  'log://{+a}/{+b}/{+c}',
  'log://{a*}-{b*}-{c*}',
  'log://{a}.{b}{.c}{/d}',
  'log://x{?a,b,c}',
  'log://x{?tags*}',
  'log://{+a}{?b*}{&c*}',
]

/** URIs that match in many ways, or almost match. */
const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
  hyphens: (size) => `log://${'-'.repeat(size)}`,
  'hyphens and a slash': (size) => `log://${'-'.repeat(size)}/`,
  letters: (size) => `log://${'a'.repeat(size)}`,
  slashes: (size) => `log://${'a/'.repeat(size / 2)}`,
  commas: (size) => `log://${'a,'.repeat(size / 2)}`,
  dots: (size) => `log://${'a.'.repeat(size / 2)}`,
  'query parameters': (size) => `log://x?${'tags=1&'.repeat(size / 7)}tags=1`,
  'nearly a query': (size) => `log://x?${'a=1&'.repeat(size / 4)}`,
  'percent-encodings': (size) => `log://${'%2D'.repeat(size / 3)}`,
  'percent signs': (size) => `log://${'%'.repeat(size)}`,
  'double encodings': (size) => `log://${'%252525'.repeat(size / 7)}`,
  'dot segments': (size) => `log://h/${'a/../'.repeat(size / 5)}`,
  'encoded dot segments': (size) => `log://h%2F${'a%2F..%2F'.repeat(size / 9)}`,
  'at signs': (size) => `log://${'@'.repeat(size)}`,
  'number signs': (size) => `log://x${'#'.repeat(size)}`,
}

describe('URIs', function () {
  this.timeout(60_000)
  const router = TEMPLATES.reduce(
    (made, uriTemplate, index) =>
      made.resourceTemplate(`t${index}`, { uriTemplate, scopes: [`s${index}`] }, () => 'x'),
    KitMcpRouter.create(),
  )
  const table = tableOf(router)
  const operations = checkOperationScopes(
    optionChecksOf('createMcpAdapter'),
    {
      resources: Object.fromEntries(TEMPLATES.map((uriTemplate) => [uriTemplate, ['s']])),
    },
    true,
  )

  for (const [what, make] of Object.entries(HOSTILE)) {
    // Longer URIs are not compared.
    it(`the resource of a URI with many ${what} is found in linear time`, () =>
      expectLinearGrowth((size) => findResource(table, canonicalUri(make(size)) ?? ''), 2_000))
    for (const [name, scoped] of [
      ['a router', table],
      ['a router function', operations],
    ] as const) {
      it(`the scopes of a URI with many ${what} are found in linear time (${name})`, () => {
        const read = (uri: string) => neededScopes(scoped, [{ method: 'resources/read', params: { uri } }])
        expectLinearGrowth((size) => read(make(size)), 1_900)
        if (scoped === operations) expectLinearGrowth((size) => read(make(size)), 20_000)
      })
    }
  }

  it('the scopes of the URIs of many messages are found in linear time', () => {
    const uri = `log://${'-'.repeat(500)}`
    expectLinearGrowth((count) => {
      const message = { method: 'resources/read', params: { uri } }
      neededScopes(table, new Array(count).fill(message))
    }, 10)
    expectLinearGrowth((count) => {
      const resourceSubscriptions = new Array(count).fill(uri)
      neededScopes(table, [
        { method: 'subscriptions/listen', params: { notifications: { resourceSubscriptions } } },
      ])
    }, 100)
  })

  it('a URI whose host has many non-ASCII characters is rejected in linear time', () => {
    const distinct = (size: number) =>
      Array.from({ length: size }, (_, index) =>
        String.fromCodePoint(0x4e00 + ((index * 7919) % 20_000)),
      ).join('')
    const hosts: ((size: number) => string)[] = [
      (size) => `https://${distinct(size)}/`,
      (size) => `HTTPS:\\${distinct(size)}`,
      (size) => `  https:/${encodeURIComponent(distinct(size))}/`,
      (size) => `file://${distinct(size)}/`,
    ]
    for (const make of hosts) expectLinearGrowth((size) => canonicalUri(make(size)), 10_000)
  })
})
