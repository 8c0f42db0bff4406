import { expect } from 'chai'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpCors } from '../../src/express/mcp-cors.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, KitMcpServer } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../../src/oauth/options.ts'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { expectConfigError } from '../support/config-error.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'
const MISSING = 'MCP_CONFIG_MISSING_OPTION'
const UNKNOWN = 'MCP_CONFIG_UNKNOWN_OPTION'

const verifyToken = async () => undefined
const GOOD = { issuer: 'https://auth.example.com', verifyToken }

/** All functions that take OAuth options. */
const entrances: readonly (readonly [name: string, enter: (options: never) => unknown])[] = [
  [
    'KitMcpServer.withOAuth()',
    (options) => KitMcpServer.create().router(KitMcpRouter.create()).withOAuth(options),
  ],
  ['createMcpAdapter()', (oauth) => createMcpAdapter({ router: KitMcpRouter.create(), oauth })],
  ['mcpAuth()', (options) => mcpAuth(options)],
  ['protectedResourceRouter()', (options) => protectedResourceRouter(options)],
]

describe('wrong OAuth options', () => {
  type Code = typeof INVALID | typeof MISSING | typeof UNKNOWN
  const wrong: readonly (readonly [
    what: string,
    changes: object,
    code: Code,
    option: string,
    message: RegExp,
  ])[] = [
    [
      'a missing verifyToken',
      { verifyToken: undefined },
      MISSING,
      'verifyToken',
      /jwtVerifier\(\{ issuer, audience \}\)/,
    ],
    ['null for verifyToken', { verifyToken: null }, MISSING, 'verifyToken', /[Ss]et it to a verifier/],
    ['a verifyToken that is not a function', { verifyToken: 'jwt' }, INVALID, 'verifyToken', /function/],
    ['a missing issuer', { issuer: undefined }, MISSING, 'issuer', /https:\/\/auth\.example\.com/],
    ['null for issuer', { issuer: null }, MISSING, 'issuer', /https:\/\/auth\.example\.com/],
    ['an empty issuer', { issuer: '' }, INVALID, 'issuer', /absolute URL/],
    ['an issuer without slashes', { issuer: 'https:auth.example.com' }, INVALID, 'issuer', /absolute URL/],
    ['an issuer without a host', { issuer: 'https:///auth' }, INVALID, 'issuer', /absolute URL/],
    ['a resource with a space', { resource: 'https://mcp.example.com/a b' }, INVALID, 'resource', /spaces/],
    [
      'a resource with a quote',
      { resource: 'https://mcp.example.com/a"b' },
      INVALID,
      'resource',
      /Percent-encode/,
    ],
    [
      'an issuer with a brace',
      { issuer: 'https://auth.example.com/{id}' },
      INVALID,
      'issuer',
      /must not contain/,
    ],
    ['an issuer without scheme', { issuer: 'auth.example.com' }, INVALID, 'issuer', /absolute URL/],
    [
      'an issuer that is a URL object',
      { issuer: new URL('https://auth.example.com') },
      INVALID,
      'issuer',
      /absolute URL/,
    ],
    [
      'an issuer on http',
      { issuer: 'http://auth.example.com' },
      INVALID,
      'issuer',
      /https.*allowInsecureHttp: true/,
    ],
    [
      'an issuer on http at a name like localhost',
      { issuer: 'http://localhost.example.com' },
      INVALID,
      'issuer',
      /https/,
    ],
    [
      'an issuer on http at an address like loopback',
      { issuer: 'http://127.0.0.1.example.com' },
      INVALID,
      'issuer',
      /https/,
    ],
    ['an issuer of another scheme', { issuer: 'ftp://auth.example.com' }, INVALID, 'issuer', /https/],
    [
      'an issuer with credentials',
      { issuer: 'https://a:b@auth.example.com' },
      INVALID,
      'issuer',
      /credentials/,
    ],
    ['an issuer with a fragment', { issuer: 'https://auth.example.com/#a' }, INVALID, 'issuer', /fragment/],
    [
      'an issuer with an empty fragment',
      { issuer: 'https://auth.example.com/#' },
      INVALID,
      'issuer',
      /fragment/,
    ],
    [
      'an issuer with a line feed',
      { issuer: 'https://auth.exa\nmple.com' },
      INVALID,
      'issuer',
      /control characters/,
    ],
    ['an issuer with a space behind', { issuer: 'https://auth.example.com ' }, INVALID, 'issuer', /spaces/],
    [
      'a resource on http',
      { resource: 'http://mcp.example.com/mcp' },
      INVALID,
      'resource',
      /https.*allowInsecureHttp/,
    ],
    ['null for dpop', { dpop: null }, INVALID, 'dpop', /'off', 'allowed' or 'required'/],
    ['a dpop mode that does not exist', { dpop: 'on' as never }, INVALID, 'dpop', /'allowed'/],
    ['true for dpop', { dpop: true as never }, INVALID, 'dpop', /'allowed'/],
    ['dpop without a mode', { dpop: {} as never }, INVALID, 'dpop', /such a mode/],
    [
      'a misspelt option of dpop',
      { dpop: { mode: 'off', replaystore: {} } as never },
      'MCP_CONFIG_UNKNOWN_OPTION',
      'dpop.replaystore',
      /Did you mean 'replayStore'/,
    ],
    ...[{ replayStore: {} }, { replayStore: null }, { replayStore: new Set() }].map(
      (wrong) =>
        [
          `the replay store ${JSON.stringify(wrong.replayStore)}`,
          { dpop: { mode: 'allowed', ...wrong } as never },
          INVALID,
          'dpop.replayStore',
          /use\(key, expiresAtSeconds\)/,
        ] as const,
    ),
    [
      'a nonce that is a string',
      { dpop: { mode: 'allowed', nonce: 'x' as never } },
      INVALID,
      'dpop.nonce',
      /true/,
    ],
    [
      'a short secret for nonces',
      { dpop: { mode: 'allowed', nonce: { secret: 'x'.repeat(31) } } },
      INVALID,
      'dpop.nonce.secret',
      /32 characters/,
    ],
    [
      'proofs that live for no time',
      { dpop: { mode: 'allowed', proofMaxAgeSeconds: 0 } },
      INVALID,
      'dpop.proofMaxAgeSeconds',
      /from 1/,
    ],
    ...[[], ['none'], ['HS256'], ['ES256', 'RS1'], 'ES256'].map(
      (algorithms) =>
        [
          `proofs signed with ${JSON.stringify(algorithms)}`,
          { dpop: { mode: 'allowed', algorithms: algorithms as string[] } },
          INVALID,
          'dpop.algorithms',
          /at least one of ES256/,
        ] as const,
    ),
    ['a resource that is a path', { resource: '/mcp' }, INVALID, 'resource', /absolute URL/],
    [
      'a resource with a fragment',
      { resource: 'https://mcp.example.com/mcp#x' },
      INVALID,
      'resource',
      /fragment/,
    ],
    [
      'a resource outside ASCII',
      { resource: 'https://mcp.example.com/m\u00fc' },
      INVALID,
      'resource',
      /ASCII/,
    ],
    ['null for resource', { resource: null }, INVALID, 'resource', /absolute URL/],
    [
      'an authorization server on http',
      { authorizationServers: ['https://a.example', 'http://b.example'] },
      INVALID,
      'authorizationServers',
      /https/,
    ],
    ['no authorization server', { authorizationServers: [] }, INVALID, 'authorizationServers', /non-empty/],
    [
      'authorization servers that are not a list',
      { authorizationServers: 'https://a.example' },
      INVALID,
      'authorizationServers',
      /array/,
    ],
    [
      'a path without slash',
      { resourceMetadataPath: '.well-known/x' },
      INVALID,
      'resourceMetadataPath',
      /leading slash/,
    ],
    ['an empty path', { resourceMetadataPath: '' }, INVALID, 'resourceMetadataPath', /leading slash/],
    [
      'a path that is a host',
      { resourceMetadataPath: '//evil.example.com/x' },
      INVALID,
      'resourceMetadataPath',
      /leading slash/,
    ],
    ['a path with a query', { resourceMetadataPath: '/x?y' }, INVALID, 'resourceMetadataPath', /plain path/],
    [
      'a path with a line feed',
      { resourceMetadataPath: '/x\r\ny' },
      INVALID,
      'resourceMetadataPath',
      /plain path/,
    ],
    ['a path with a quote', { resourceMetadataPath: '/x"y' }, INVALID, 'resourceMetadataPath', /plain path/],
    [
      'a path with dot segments',
      { resourceMetadataPath: '/a/../b' },
      INVALID,
      'resourceMetadataPath',
      /plain path/,
    ],
    [
      'a path with a slash behind',
      { resourceMetadataPath: '/x/' },
      INVALID,
      'resourceMetadataPath',
      /plain path/,
    ],
    ['a scope with a space', { scopes: ['mcp:read mcp:write'] }, INVALID, 'scopes', /RFC 6749/],
    ['a scope with a quote', { scopes: ['a"b'] }, INVALID, 'scopes', /RFC 6749/],
    ['a scope with a backslash', { scopes: ['a\\b'] }, INVALID, 'scopes', /RFC 6749/],
    ['a scope with a control character', { scopes: ['a\u0007'] }, INVALID, 'scopes', /RFC 6749/],
    ['a scope outside ASCII', { scopes: ['\u00e9'] }, INVALID, 'scopes', /RFC 6749/],
    ['an empty scope', { scopes: [''] }, INVALID, 'scopes', /RFC 6749/],
    ['a scope that is not a string', { scopes: [5] }, INVALID, 'scopes', /RFC 6749/],
    ['scopes in one string', { scopes: 'mcp:read' }, INVALID, 'scopes', /array/],
    [
      'offline_access among scopes',
      { scopes: ['mcp:read', 'offline_access'] },
      INVALID,
      'scopes',
      /offline_access/,
    ],
    [
      'a wrong scope in scopesSupported',
      { scopesSupported: ['a b'] },
      INVALID,
      'scopesSupported',
      /RFC 6749/,
    ],
    [
      'scopeImplies that is a list',
      { scopeImplies: [['a', 'b']] },
      INVALID,
      'scopeImplies',
      /'mcp:write': \['mcp:read'\]/,
    ],
    ['scopeImplies without lists', { scopeImplies: { a: 'b' } }, INVALID, 'scopeImplies', /array/],
    ['a wrong scope that implies', { scopeImplies: { 'a b': ['c'] } }, INVALID, 'scopeImplies', /RFC 6749/],
    ['a wrong scope that is implied', { scopeImplies: { a: ['b c'] } }, INVALID, 'scopeImplies', /RFC 6749/],
    ['an empty realm', { realm: '' }, INVALID, 'realm', /printable ASCII/],
    ['a realm with a line feed', { realm: 'a\r\nX-Evil: 1' }, INVALID, 'realm', /printable ASCII/],
    ['a realm outside ASCII', { realm: 'caf\u00e9' }, INVALID, 'realm', /printable ASCII/],
    ['a realm that is not a string', { realm: 5 }, INVALID, 'realm', /printable ASCII/],
    ['an empty name', { resourceName: '' }, INVALID, 'resourceName', /non-empty/],
    [
      'a name with a control character',
      { resourceName: 'Notes\u0000' },
      INVALID,
      'resourceName',
      /control characters/,
    ],
    [
      'documentation that is not a URL',
      { resourceDocumentation: 'docs' },
      INVALID,
      'resourceDocumentation',
      /absolute URL/,
    ],
    [
      'documentation with a script',
      { resourceDocumentation: 'javascript:alert(1)' },
      INVALID,
      'resourceDocumentation',
      /https/,
    ],
    ['an onVerified that is not a function', { onVerified: true }, INVALID, 'onVerified', /function/],
    ['a trustProxy that is a number', { trustProxy: 1 }, INVALID, 'trustProxy', /true or false/],
    ['no time for the verifier', { verifyTimeoutMs: 0 }, INVALID, 'verifyTimeoutMs', /whole number/],
    ['a time that is NaN', { verifyTimeoutMs: Number.NaN }, INVALID, 'verifyTimeoutMs', /whole number/],
    [
      'more time than a timer holds',
      { verifyTimeoutMs: 2 ** 31 },
      INVALID,
      'verifyTimeoutMs',
      /whole number/,
    ],
    [
      'allowInsecureHttp that is a string',
      { allowInsecureHttp: 'yes' },
      INVALID,
      'allowInsecureHttp',
      /true or false/,
    ],
    [
      'an option that does not exist',
      { tokens: [] },
      UNKNOWN,
      'tokens',
      /no option 'tokens'.*Known options: issuer, /s,
    ],
    [
      'a misspelt option',
      { verifytoken: verifyToken },
      UNKNOWN,
      'verifytoken',
      /Did you mean 'verifyToken'\?/,
    ],
    ['scope for scopes', { scope: ['a'] }, UNKNOWN, 'scope', /Did you mean 'scopes'\?/],
    ['requiredScopes', { requiredScopes: ['a'] }, UNKNOWN, 'requiredScopes', /Known options:.*scopes/],
    ['a misspelt option without value', { isuer: undefined }, UNKNOWN, 'isuer', /Did you mean 'issuer'\?/],
  ]
  for (const [what, changes, code, option, message] of wrong) {
    it(`OAuth options throw for ${what}`, () => {
      for (const [, enter] of entrances) {
        expectConfigError(() => enter({ ...GOOD, ...changes } as never), { code, option, message })
      }
    })
  }

  for (const [what, value] of [
    ['null', null],
    ['a text', 'https://auth.example.com'],
    ['false', false],
    ['true', true],
    ['a function', verifyToken],
    ['a list', [GOOD]],
  ] as const) {
    it(`OAuth options that are not an object throw: ${what}`, () => {
      for (const [, enter] of entrances) {
        expectConfigError(() => enter(value as never), {
          code: INVALID,
          option: 'oauth',
          message: /issuer, verifyToken/,
        })
      }
    })
  }

  it('OAuth options that are undefined throw, except for createMcpAdapter(), where they disable OAuth', async () => {
    for (const [name, enter] of entrances) {
      if (name === 'createMcpAdapter()') expect(() => enter(undefined as never)).not.to.throw()
      else
        expectConfigError(() => enter(undefined as never), {
          code: INVALID,
          option: 'oauth',
          message: /verifyToken/,
        })
    }
    const { auth } = createMcpAdapter({ router: KitMcpRouter.create() })
    const url = 'https://mcp.example.com/.well-known/oauth-protected-resource'
    expect((await auth.resource(new Request(url))).status).to.equal(404)
  })

  it('errors of OAuth options never contain credentials, a path, or a query', () => {
    for (const issuer of ['http://auth.example.com/leak?leak', 'https://leak:leak@auth.example.com']) {
      expect(() => resolveOAuthOptions({ ...GOOD, issuer }))
        .to.throw(KitMcpConfigError)
        .with.property('message')
        .not.match(/leak/)
    }
  })
})

describe('an adapter as target', () => {
  const middleware = [mcpAuth, protectedResourceRouter]

  it('an adapter without OAuth as target throws', () => {
    const router = KitMcpRouter.create()
    for (const target of [createMcpAdapter({ router }), KitMcpServer.create().router(router).build()]) {
      for (const make of middleware) {
        expectConfigError(() => make(target), {
          code: MISSING,
          option: 'oauth',
          message: /withOAuth\(\{ … \}\) or oauth/,
        })
      }
    }
  })

  it('a copy of an adapter as target throws', () => {
    const router = KitMcpRouter.create()
    for (const target of [
      createMcpAdapter({ router, oauth: GOOD }),
      KitMcpServer.create().router(router).withOAuth(GOOD).build(),
    ]) {
      for (const make of middleware) {
        expect(() => make(target)).not.to.throw()
        expectConfigError(() => make({ ...target } as never), {
          code: INVALID,
          option: 'target',
          message: /copy/,
        })
      }
    }
  })
})

describe('good OAuth options', () => {
  it('OAuth options have the documented defaults', () => {
    const { verifyToken: _, ...resolved } = resolveOAuthOptions(GOOD)
    expect(resolved).to.deep.equal({
      gateValues: {
        issuer: 'https://auth.example.com',
        authorizationServers: ['https://auth.example.com'],
        resource: undefined,
      },
      onVerified: undefined,
      resourceMetadataPath: '/.well-known/oauth-protected-resource',
      scopes: [],
      resource: undefined,
      resourceOf: undefined,
      realm: 'mcp-server',
      authorizationServers: ['https://auth.example.com'],
      authorizationServersOf: undefined,
      resourceName: undefined,
      resourceDocumentation: undefined,
      scopesSupported: undefined,
      scopeImplies: {},
      trustProxy: false,
      verifyTimeoutMs: 10_000,
      signedMetadata: undefined,
      dpop: undefined,
      limiter: undefined,
      clientAddress: undefined,
      stepUp: 'required',
      challengeWithoutToken: 'error',
      challengeInResult: false,
      securitySchemes: undefined,
      anonymous: false,
      allowInsecureHttp: false,
    })
  })

  it('OAuth options accept http for loopback hosts, and for others with allowInsecureHttp', () => {
    for (const origin of [
      'http://localhost:3000',
      'http://127.0.0.1',
      'http://127.8.9.10:1',
      'http://[::1]:3000',
      'http://auth.localhost',
    ]) {
      const options = { ...GOOD, issuer: origin, resource: `${origin}/mcp`, authorizationServers: [origin] }
      expect(() => resolveOAuthOptions(options), origin).not.to.throw()
    }
    const elsewhere = 'http://auth.internal'
    const options = { ...GOOD, issuer: elsewhere, resource: elsewhere, authorizationServers: [elsewhere] }
    expect(() => resolveOAuthOptions({ ...options, allowInsecureHttp: true })).not.to.throw()
    expect(() => resolveOAuthOptions({ ...options, allowInsecureHttp: false })).to.throw(KitMcpConfigError)
  })

  it('OAuth options are copied, so that later changes have no effect', () => {
    const options = {
      ...GOOD,
      scopes: ['a'],
      scopeImplies: { b: ['a'] },
      authorizationServers: ['https://one.example.com'],
      scopesSupported: ['a'],
      realm: 'first',
    }
    const resolved = resolveOAuthOptions(options)
    options.scopes.push('c')
    options.scopeImplies.b.push('c')
    options.authorizationServers[0] = 'https://evil.example.com'
    options.scopesSupported.length = 0
    options.realm = 'second'
    Object.assign(options, { verifyToken: async () => ({ valid: true }) })
    expect(resolved).to.deep.include({
      verifyToken,
      scopes: ['a'],
      scopeImplies: { b: ['a'] },
      authorizationServers: ['https://one.example.com'],
      scopesSupported: ['a'],
      realm: 'first',
    })
    expect(Object.isFrozen(resolved)).to.equal(true)
  })

  it('OAuth options that are not required may be undefined', () => {
    const names: (keyof OAuthOptions)[] = [
      'resourceMetadataPath',
      'scopes',
      'resource',
      'realm',
      'authorizationServers',
      'resourceName',
      'resourceDocumentation',
      'scopesSupported',
      'scopeImplies',
      'onVerified',
      'trustProxy',
      'verifyTimeoutMs',
      'allowInsecureHttp',
    ]
    const given = { ...GOOD, ...Object.fromEntries(names.map((name) => [name, undefined])) }
    expect(resolveOAuthOptions(given)).to.deep.equal(resolveOAuthOptions(GOOD))
  })

  it('OAuth options may repeat a scope, and accept names in any script', () => {
    const { scopes, resourceName } = resolveOAuthOptions({
      ...GOOD,
      scopes: ['a', 'b', 'a'],
      resourceName: 'Notizbücher 📓',
    })
    expect(scopes).to.deep.equal(['a', 'b'])
    expect(resourceName).to.equal('Notizbücher 📓')
  })
})

describe('mcpCors() options', () => {
  it('wrong options of mcpCors() throw', () => {
    expectConfigError(() => mcpCors({ origins: ['https://a.example'] } as never), {
      code: UNKNOWN,
      option: 'origins',
      message: /Did you mean 'origin'\?/,
    })
    for (const options of [null, 'https://a.example', ['https://a.example']]) {
      expectConfigError(() => mcpCors(options as never), {
        code: INVALID,
        option: 'mcpCors',
        message: /origin/,
      })
    }
  })
})

describe('VerifierUnavailableError', () => {
  it('a VerifierUnavailableError keeps its message, cause, and seconds', () => {
    const cause = new Error('socket hang up')
    const error = new VerifierUnavailableError('the JWKS is down', { cause, retryAfterSeconds: 2.5 })
    expect(error).to.include({
      name: 'VerifierUnavailableError',
      message: 'the JWKS is down',
      cause,
      retryAfterSeconds: 3,
    })
    expect(error).to.be.instanceOf(Error)
    expect(new VerifierUnavailableError('x')).to.include({ retryAfterSeconds: 5 })
    expect(new VerifierUnavailableError('x')).not.to.have.property('cause')
    expect(new VerifierUnavailableError('x', { retryAfterSeconds: -1 })).to.include({ retryAfterSeconds: 5 })
  })
})
