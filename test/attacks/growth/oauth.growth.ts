import { clientKey, firstIpAddress } from '../../../src/base/http/client-address.ts'
import { corsRequestHeaders, preflightHeaders } from '../../../src/base/http/cors-headers.ts'
import { requestOrigin } from '../../../src/base/http/request-origin.ts'
import { readAccessToken, readBearerToken } from '../../../src/oauth/authorization-header.ts'
import { bearerChallenge } from '../../../src/oauth/challenge.ts'
import { bindingOf } from '../../../src/oauth/confirmation.ts'
import { DpopNonces } from '../../../src/oauth/dpop/nonces.ts'
import { checkProof } from '../../../src/oauth/dpop/proof.ts'
import { MemoryReplayStore } from '../../../src/oauth/dpop/replay-store.ts'
import { refusalLimiter } from '../../../src/oauth/limits/refusal-limit.ts'
import { ProtectedResource } from '../../../src/oauth/metadata/protected-resource.ts'
import type { OAuthOptions } from '../../../src/oauth/options.ts'
import { resolveOAuthOptions } from '../../../src/oauth/options.ts'
import { grantedScopes, ScopeHierarchy, unionOfScopes } from '../../../src/oauth/scope.ts'
import { isFor, resourceIn } from '../../../src/oauth/verifiers/audience.ts'
import { frozenCopy } from '../../../src/oauth/verifiers/frozen-copy.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('input of the gate', () => {
  const grows = (what: string, work: (size: number) => unknown, size = 10_000) =>
    it(`${what}: the gate reads them in linear time`, () => expectLinearGrowth(work, size))

  describe('Authorization headers', () => {
    const hostile: Readonly<Record<string, (size: number) => string | string[]>> = {
      'spaces after the scheme': (size) => `DPoP ${' '.repeat(size)}`,
      'spaces in the token': (size) => `DPoP ${'a '.repeat(size)}`,
      'equals signs in the token': (size) => `DPoP a${'='.repeat(size)}a`,
      'a long scheme': (size) => `${'DPoP'.repeat(size)} a`,
      'many headers': (size) => new Array<string>(size).fill('DPoP a'),
    }
    for (const [what, make] of Object.entries(hostile)) {
      grows(`DPoP, ${what}`, (size) => readAccessToken(make(size)))
      grows(`Bearer, ${what}`, (size) => readBearerToken(make(size)))
    }
  })

  describe('scopes', () => {
    const many = (size: number) => Array.from({ length: size }, (_, index) => `scope:${index}`)
    const implies = Object.fromEntries(many(100).map((scope) => [`broad:${scope}`, [scope]]))
    const hierarchy = new ScopeHierarchy(implies)
    grows('a string with many', (size) => grantedScopes(many(size).join(' ')))
    grows('a string of spaces', (size) => grantedScopes(' '.repeat(size)))
    grows('a list with many', (size) => grantedScopes(many(size)))
    grows(
      'many granted, many required',
      (size) => hierarchy.satisfies(many(size).reverse(), many(size)),
      5_000,
    )
    grows('many granted, many required of which each has a broader one', (size) =>
      hierarchy.satisfies(
        many(size)
          .map((scope) => `x${scope}`)
          .concat(Object.keys(implies)),
        many(100),
      ),
    )
    grows('many in a challenge', (size) =>
      bearerChallenge({
        ...{
          realm: '"\\'.repeat(size),
          error: 'insufficient_scope',
          scopes: unionOfScopes(many(size), many(size)),
        },
        ...{ resourceMetadata: undefined, errorDescription: '' },
      }),
    )
  })

  describe('CORS preflights', () => {
    grows('many Mcp-Param headers', (size) => preflightHeaders('mcp-param-a,'.repeat(size)))
    grows('many different ones', (size) =>
      corsRequestHeaders(Array.from({ length: size }, (_, index) => `mcp-param-${index}`).join(',')),
    )
    grows('a long name', (size) => corsRequestHeaders(`mcp-param-${'a'.repeat(size)} `))
    grows('spaces and commas', (size) => corsRequestHeaders(`mcp-param-a${' ,'.repeat(size)}`))
  })

  describe('metadata requests', () => {
    const oauth: OAuthOptions = { issuer: 'https://auth.example.com', verifyToken: () => undefined }
    const resource = new ProtectedResource(resolveOAuthOptions(oauth), [])
    const root = '/.well-known/oauth-protected-resource'
    const ask = (path: string, ifNoneMatch?: string) =>
      resource.respond({
        ...{ method: 'GET', path, origin: 'https://mcp.example.com', header: () => ifNoneMatch },
        request: new Request('https://mcp.example.com'),
      })
    const tags: Readonly<Record<string, (size: number) => string>> = {
      'entity tags': (size) => '"a",'.repeat(size),
      'weak entity tags': (size) => 'W/"a", '.repeat(size),
      commas: (size) => ','.repeat(size),
      spaces: (size) => `"a"${' '.repeat(size)}x`,
      quotes: (size) => '"'.repeat(size),
    }
    for (const [what, make] of Object.entries(tags))
      grows(`If-None-Match with many ${what}`, (size) => ask(root, make(size)))
    grows('a long path', (size) => ask(`${root}${'/a'.repeat(size)}`))
    grows('a path of slashes', (size) => ask(`${root}${'/'.repeat(size)}`))
    grows('forwarded headers', (size) => {
      for (const value of [',', ';', ' ', 'proto=', 'host=a;', '"'].map((part) => part.repeat(size)))
        requestOrigin({ protocol: 'http', host: value, header: () => value }, true)
    })
  })

  describe('client addresses', () => {
    for (const part of ['1', '1.', ':', '::', '[', ']', '%', ' ', '1.2.3.4:', 'f:'])
      grows(`many ${JSON.stringify(part)}`, (size) => {
        clientKey(part.repeat(size))
        firstIpAddress(`[${part.repeat(size)}]:1`)
      })
    grows(
      'counted',
      (size) => {
        const limiter = refusalLimiter({ points: 1, durationSeconds: 60 })
        for (let client = 0; client < size; client++) void limiter.count(`${client}`)
      },
      5_000,
    )
  })

  describe('DPoP proofs', () => {
    // Proofs and tokens have a limited length. These options measure the checks before the first asynchronous step.
    const options = resolveOAuthOptions({
      ...{ issuer: 'https://auth.example.com', verifyToken: () => undefined, dpop: 'required' },
    }).dpop
    for (const part of ['/..', '/.', '/%2e', '%2e', '.', '\\', '/', ' '])
      grows(`a path of ${JSON.stringify(part)}`, (size) => {
        if (options === undefined) throw new Error('DPoP is disabled')
        const subject = { proof: 'a.b.c', method: 'GET', origin: 'https://mcp.example.com', token: 'a' }
        checkProof({ ...subject, path: `/a${part.repeat(size)}a` }, options).catch(() => undefined)
      })
    grows('nonces', (size) => new DpopNonces('secret', 300).accepts('a'.repeat(size)))
    grows(
      'used proofs of one key',
      (size) => {
        const store = new MemoryReplayStore(1_000)
        for (let proof = 0; proof < size; proof++) store.use(`${proof}`, 2e9 + proof, 'key')
      },
      5_000,
    )
    grows(
      'used proofs of many keys',
      (size) => {
        const store = new MemoryReplayStore(1_000)
        for (let proof = 0; proof < size; proof++) store.use(`${proof}`, 2e9 + proof, `key ${proof}`)
      },
      5_000,
    )
    grows('members of cnf', (size) =>
      bindingOf(Object.fromEntries(Array.from({ length: size }, (_, index) => [`member ${index}`, index]))),
    )
  })

  describe('results of verifiers', () => {
    const audiences = ['https://mcp.example.com/mcp']
    const many = (size: number) => Array.from({ length: size }, (_, index) => `https://${index}.example.com`)
    grows('audiences', (size) => {
      isFor(many(size), audiences)
      resourceIn(many(size), audiences, audiences[0])
    })
    grows('members that are copied', (size) =>
      frozenCopy(() => Object.fromEntries(many(size).map((name) => [name, [name]]))),
    )
    grows('levels that are copied', (size) => {
      let deep: unknown = 1
      for (let level = 0; level < size; level++) deep = { deep }
      return frozenCopy(() => deep)
    })
  })
})
