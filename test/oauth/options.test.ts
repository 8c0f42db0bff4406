import { expect } from 'chai'
import { KitMcpConfigError, KitMcpRouter, mcpAuth, protectedResourceRouter } from '../../src/index.ts'
import { createMcpAdapter, KitMcpServer } from '../../src/mcp/adapter.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../../src/oauth/options.ts'
import { expectConfigError } from '../support/config-error.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'

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
  it('every function that takes OAuth options checks them', () => {
    for (const [, enter] of entrances)
      for (const [options, option] of [
        [{ ...GOOD, issuer: 'auth.example.com' }, 'issuer'],
        ['https://auth.example.com', 'oauth'],
      ] as const)
        expectConfigError(() => enter(options as never), { code: INVALID, option, message: /received/ })
  })

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

  it('the error for a resource shows what was given, and the right spelling', () => {
    for (const [resource, right] of [
      ['https://mcp.example.com/a/..', 'https://mcp.example.com'],
      ['https://mcp.ex\u00e4mple.com/mcp', 'https://mcp.xn--exmple-cua.com/mcp'],
    ] as const)
      expect(() => resolveOAuthOptions({ ...GOOD, resource })).to.throw(
        `received '${resource}'. Write '${right}'.`,
      )
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
