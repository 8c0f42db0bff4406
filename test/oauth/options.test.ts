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
  type Row = readonly [
    what: string,
    value: unknown,
    message: RegExp,
    code?: typeof INVALID | typeof MISSING | typeof UNKNOWN,
  ]
  /** Wrong values by the option that the error names. The code is `INVALID` unless the row says otherwise. */
  const wrong: Readonly<Record<string, readonly Row[]>> = {
    verifyToken: [
      ['a missing verifyToken', undefined, /jwtVerifier\(\{ issuer, audience \}\)/, MISSING],
      ['null for verifyToken', null, /[Ss]et it to a verifier/, MISSING],
      ['a verifyToken that is not a function', 'jwt', /function/],
    ],
    issuer: [
      ['a missing issuer', undefined, /https:\/\/auth\.example\.com/, MISSING],
      ['null for issuer', null, /https:\/\/auth\.example\.com/, MISSING],
      ['an empty issuer', '', /absolute URL/],
      ['an issuer without slashes', 'https:auth.example.com', /absolute URL/],
      ['an issuer without a host', 'https:///auth', /absolute URL/],
      ['an issuer with a brace', 'https://auth.example.com/{id}', /must not contain/],
      ['an issuer without scheme', 'auth.example.com', /absolute URL/],
      ['an issuer that is a URL object', new URL('https://auth.example.com'), /absolute URL/],
      ['an issuer on http', 'http://auth.example.com', /https.*allowInsecureHttp: true/],
      ['an issuer on http at a name like localhost', 'http://localhost.example.com', /https/],
      ['an issuer on http at an address like loopback', 'http://127.0.0.1.example.com', /https/],
      ['an issuer of another scheme', 'ftp://auth.example.com', /https/],
      ['an issuer with credentials', 'https://a:b@auth.example.com', /credentials/],
      ['an issuer with a fragment', 'https://auth.example.com/#a', /fragment/],
      ['an issuer with an empty fragment', 'https://auth.example.com/#', /fragment/],
      ['an issuer with a line feed', 'https://auth.exa\nmple.com', /control characters/],
      ['an issuer with a space behind', 'https://auth.example.com ', /spaces/],
    ],
    resource: [
      ['a resource with a space', 'https://mcp.example.com/a b', /spaces/],
      ['a resource with a quote', 'https://mcp.example.com/a"b', /Percent-encode/],
      ['a resource on http', 'http://mcp.example.com/mcp', /https.*allowInsecureHttp/],
      ['a resource that is a path', '/mcp', /absolute URL/],
      ['a resource with a fragment', 'https://mcp.example.com/mcp#x', /fragment/],
      ['a resource outside ASCII', 'https://mcp.example.com/m\u00fc', /ASCII/],
      ['null for resource', null, /absolute URL/],
    ],
    dpop: [
      ['null for dpop', null, /'off', 'allowed' or 'required'/],
      ['a dpop mode that does not exist', 'on', /'allowed'/],
      ['true for dpop', true, /'allowed'/],
      ['dpop without a mode', {}, /such a mode/],
    ],
    'dpop.replaystore': [
      ['a misspelt option of dpop', { mode: 'off', replaystore: {} }, /Did you mean 'replayStore'/, UNKNOWN],
    ],
    'dpop.replayStore': [
      ...[{}, null, new Set()].map(
        (replayStore): Row => [
          `the replay store ${JSON.stringify(replayStore)}`,
          { mode: 'allowed', replayStore },
          /use\(key, expiresAtSeconds\)/,
        ],
      ),
    ],
    'dpop.nonce': [['a nonce that is a string', { mode: 'allowed', nonce: 'x' }, /true/]],
    'dpop.nonce.secret': [
      ['a short secret for nonces', { mode: 'allowed', nonce: { secret: 'x'.repeat(31) } }, /32 characters/],
    ],
    'dpop.proofMaxAgeSeconds': [
      ['proofs that live for no time', { mode: 'allowed', proofMaxAgeSeconds: 0 }, /from 1/],
    ],
    'dpop.algorithms': [
      ...[[], ['none'], ['HS256'], ['ES256', 'RS1'], 'ES256'].map(
        (algorithms): Row => [
          `proofs signed with ${JSON.stringify(algorithms)}`,
          { mode: 'allowed', algorithms },
          /at least one of ES256/,
        ],
      ),
    ],
    authorizationServers: [
      ['an authorization server on http', ['https://a.example', 'http://b.example'], /https/],
      ['no authorization server', [], /non-empty/],
      ['authorization servers that are not a list', 'https://a.example', /array/],
    ],
    resourceMetadataPath: [
      ['a path without slash', '.well-known/x', /leading slash/],
      ['an empty path', '', /leading slash/],
      ['a path that is a host', '//evil.example.com/x', /leading slash/],
      ['a path with a query', '/x?y', /plain path/],
      ['a path with a line feed', '/x\r\ny', /plain path/],
      ['a path with a quote', '/x"y', /plain path/],
      ['a path with dot segments', '/a/../b', /plain path/],
      ['a path with a slash behind', '/x/', /plain path/],
    ],
    scopes: [
      ['a scope with a space', ['mcp:read mcp:write'], /RFC 6749/],
      ['a scope with a quote', ['a"b'], /RFC 6749/],
      ['a scope with a backslash', ['a\\b'], /RFC 6749/],
      ['a scope with a control character', ['a\u0007'], /RFC 6749/],
      ['a scope outside ASCII', ['\u00e9'], /RFC 6749/],
      ['an empty scope', [''], /RFC 6749/],
      ['a scope that is not a string', [5], /RFC 6749/],
      ['scopes in one string', 'mcp:read', /array/],
      ['offline_access among scopes', ['mcp:read', 'offline_access'], /offline_access/],
    ],
    scopesSupported: [['a wrong scope in scopesSupported', ['a b'], /RFC 6749/]],
    scopeImplies: [
      ['scopeImplies that is a list', [['a', 'b']], /'mcp:write': \['mcp:read'\]/],
      ['scopeImplies without lists', { a: 'b' }, /array/],
      ['a wrong scope that implies', { 'a b': ['c'] }, /RFC 6749/],
      ['a wrong scope that is implied', { a: ['b c'] }, /RFC 6749/],
    ],
    realm: [
      ['an empty realm', '', /printable ASCII/],
      ['a realm with a line feed', 'a\r\nX-Evil: 1', /printable ASCII/],
      ['a realm outside ASCII', 'caf\u00e9', /printable ASCII/],
      ['a realm that is not a string', 5, /printable ASCII/],
    ],
    resourceName: [
      ['an empty name', '', /non-empty/],
      ['a name with a control character', 'Notes\u0000', /control characters/],
    ],
    resourceDocumentation: [
      ['documentation that is not a URL', 'docs', /absolute URL/],
      ['documentation with a script', 'javascript:alert(1)', /https/],
    ],
    onVerified: [['an onVerified that is not a function', true, /function/]],
    trustProxy: [['a trustProxy that is a number', 1, /true or false/]],
    verifyTimeoutMs: [
      ['no time for the verifier', 0, /whole number/],
      ['a time that is NaN', Number.NaN, /whole number/],
      ['more time than a timer holds', 2 ** 31, /whole number/],
    ],
    allowInsecureHttp: [['allowInsecureHttp that is a string', 'yes', /true or false/]],
    tokens: [['an option that does not exist', [], /no option 'tokens'.*Known options: issuer, /s, UNKNOWN]],
    verifytoken: [['a misspelt option', verifyToken, /Did you mean 'verifyToken'\?/, UNKNOWN]],
    scope: [['scope for scopes', ['a'], /Did you mean 'scopes'\?/, UNKNOWN]],
    requiredScopes: [['requiredScopes', ['a'], /Known options:.*scopes/, UNKNOWN]],
    isuer: [['a misspelt option without value', undefined, /Did you mean 'issuer'\?/, UNKNOWN]],
  }
  for (const [option, rows] of Object.entries(wrong))
    for (const [what, value, message, code = INVALID] of rows)
      it(`OAuth options throw for ${what}`, () => {
        const changes = { [option.replace(/\..*/, '')]: value }
        for (const [, enter] of entrances)
          expectConfigError(() => enter({ ...GOOD, ...changes } as never), { code, option, message })
      })

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
    for (const [given, seconds] of [
      [-1, 5],
      [Number.NaN, 5],
      [0, 0],
      [0.2, 1],
    ] as const)
      expect(new VerifierUnavailableError('x', { retryAfterSeconds: given }).retryAfterSeconds).to.equal(
        seconds,
      )
  })
})
