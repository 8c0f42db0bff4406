import { createServer } from 'node:http'
import { z } from 'zod'
import * as authorization from '../../src/authorization/index.ts'
import * as kit from '../../src/index.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { loadSkills } from '../../src/skills/index.ts'
import { auditFile, httpTelemetry } from '../../src/telemetry/index.ts'
import { callTool, createTestIssuer } from '../../src/testing/index.ts'
import { upstreamToken } from '../../src/upstream/index.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

/** A function of this package that takes options, directly or inside an object. */
export interface OptionsTaker {
  /** The name of the function, as it is called. */
  readonly name: string
  /** Its heading in docs/reference/errors.md. For `oauth`, the heading of all options; each option has its own heading too. */
  readonly heading: string
  readonly call: (options: Wrong) => unknown
  /** Valid options. */
  readonly good: object
  /** The option of which these are the members, as the documentation names them: `keep` of `withSampling`. */
  readonly member?: string
  /** `false` if the page of errors has no row for each of the options. */
  readonly isListed?: false
  /** Further invalid values of options, in addition to those of their kind. See `wrongValuesOf`. */
  readonly wrong?: Readonly<Record<string, readonly unknown[]>>
  /** Options that are documented under another heading. */
  readonly elsewhere?: Readonly<Record<string, string>>
}

/** A taker whose heading defaults to its name in lower case without dots, and its valid options to none. */
type Entry = Omit<OptionsTaker, 'heading' | 'good'> & Partial<Pick<OptionsTaker, 'heading' | 'good'>>

const url = 'https://auth.example.com'
const audience = 'https://mcp.example.com/mcp'
const verifyToken = () => undefined
/** The input of a verifier that is called without a gate, for a request without a token. */
const withoutToken: Wrong = { bearerToken: undefined, context: {} }
const oauth = { issuer: url, verifyToken }
const router = kit.KitMcpRouter.create()
const functionRouter: Wrong = () => ({})
const schema = z.object({ a: z.string() })
const handle = () => {}
const telemetry = () => kit.KitTelemetry.create()
const events = kit.KitTelemetryEvents.namespace('billing').event('paid', schema).build()
const logger = { debug() {}, info() {}, warn() {}, error() {} }
const webhookUrl = 'https://hooks.example.com/T0'

const { oidc, entra, google, github, cognito } = authorization
const providers: Record<string, (options: Wrong) => unknown> = { oidc, entra, google, github, cognito }

/** A Redis client that responds to every command with an empty reply. */
const redis = {
  publish: async () => 0,
  eval: async () => 0,
  set: async () => 'OK',
  exists: async () => 0,
  subscribe: async () => 0,
  unsubscribe: async () => 0,
  quit: async () => {},
  disconnect() {},
  on() {},
  off() {},
  duplicate: () => redis,
}

/** A request handler for the generated tools. */
const app = () => {}
const document = {
  openapi: '3.1.0',
  info: { title: 'pets', version: '1' },
  paths: {
    '/pets': { get: { operationId: 'listPets', tags: ['pet'], responses: { 200: { description: 'ok' } } } },
  },
}

const skillFiles = { 'a/SKILL.md': '---\nname: a\ndescription: b\n---\n' }
const skills = await loadSkills(skillFiles)

const NO_TEXT: readonly unknown[] = [null, 5, {}]
const NO_NUMBER: readonly unknown[] = ['10', -1, Number.NaN, {}]
const NO_OBJECT: readonly unknown[] = ['x', 5, []]
/** Connection options of every transport that posts over HTTP. */
const CONNECTION = { dispatcher: NO_OBJECT }
/** The URIs of resources that clients do not spell like this. */
const NOT_COMPARABLE: readonly string[] = [
  'https://mcp.example.com:443/mcp',
  'https://MCP.example.com/mcp',
  'https://MCP.example.com',
  'HTTPS://mcp.example.com/mcp',
  'https://mcp.example.com/a/../mcp',
  'http://127.1/mcp',
]

const NO_URL: readonly unknown[] = [
  'auth.example.com',
  5,
  'ftp://auth.example.com',
  'http://auth.example.com',
]
/** Identifiers of issuers that are almost URLs of https. */
const NO_ISSUER: readonly unknown[] = [
  ...['', 'https:auth.example.com', 'https:///auth', `${url}/{id}`, `${url}/#a`, `${url}/#`, `${url} `],
  ...['https://ada@auth.example.com', 'http://localhost.example.com', 'http://127.0.0.1.example.com'],
  'https://auth.exa\nmple.com',
  new URL(url),
]
/** URIs of resources that challenges cannot contain. */
const NO_RESOURCE: readonly string[] = [
  '/mcp',
  ...['/a b', '/a"b', '#x', '/m\u00fc'].map((end) => audience + end),
]
/** URLs that hold a user name or a password. */
const CREDENTIALS: readonly string[] = ['https://ada@example.com', 'https://ada:pw@example.com']
const NO_SCOPES: readonly unknown[] = ['mcp:read', ['mcp:read mcp:write'], [5], {}]

const DEFINITION = { icons: ['x', [5]], scopes: NO_SCOPES }

const ORIGINS = {
  allowedOrigins: [
    'https://app.example.com',
    ...['*', 'null', 'https://app.example.com/', 'https://app.example.com/path', 'ftp://a.example', 5].map(
      (origin) => [origin],
    ),
  ],
  allowedHosts: [
    'mcp.example.com',
    [],
    ...['mcp.example.com:8080', 'https://a.example', 'a.example/mcp', 'a b', 5].map((host) => [host]),
  ],
}

/** Values that a content security policy cannot have as origins, because they would change it. */
const NO_ORIGINS: readonly unknown[] = [
  ...[
    `https://a.example 'unsafe-eval'`,
    'https://a.example;script-src *',
    'https://a.example\n',
    `'self'`,
    '*',
  ],
  ...['https://*', 'https://a.example/path', 'data:', 'https://user@a.example', 'https://a.example:99999'],
  ...['ftp://a.example', '', 5],
]

const LIMITS: readonly unknown[] = [
  ...NO_OBJECT,
  { calls: 60 },
  { calls: { max: 0, perSeconds: 60, by: 'user' } },
  { calls: { max: 1.5, perSeconds: 60, by: 'user' } },
  { calls: { max: 1, perSeconds: 0, by: 'user' } },
  { calls: { max: 1, perSeconds: 60 } },
  { calls: { max: 1, perSeconds: 60, by: 'ip' } },
  { concurrency: { by: 'user' } },
  { concurrency: { max: 1, by: 'session' } },
  { timeoutMs: 0 },
  { timeoutMs: 2 ** 31 },
  { maxResultBytes: '1 MiB' },
  { store: {} },
]

const ADAPTER = {
  ...ORIGINS,
  requestStateSecret: ['short', 5, {}],
  scopes: [{ tools: { wipe: 'mcp:admin' } }],
  limits: LIMITS,
  tasks: [{ store: {} }, { maxPerOwner: 0 }, { ttlMs: 2 ** 31 }],
  events: [
    { store: {} },
    { maxPerOwner: 0 },
    { ttlMs: 0 },
    { webhooks: { webhookId: 'x' } },
    { errorCodes: 'x' },
  ],
}

const ENTRIES: readonly Entry[] = [
  {
    name: 'mcpAuth',
    heading: 'oauth',
    call: (options) => kit.mcpAuth(options),
    good: oauth,
    wrong: {
      issuer: [undefined, null, ...NO_URL, ...NO_ISSUER],
      resourceMetadataPath: [
        ...['', 'metadata', '//metadata', '/metadata?a', '/x\r\ny', '/x"y', '/a/../b', '/x/'],
        5,
      ],
      scopes: [...NO_SCOPES, ...[['a"b'], ['a\\b'], ['a\u0007'], ['\u00e9'], ['']], ['offline_access']],
      resource: [...NO_URL, ...NOT_COMPARABLE, ...NO_RESOURCE],
      realm: ['', 'a\r\nX-Evil: 1', 'caf\u00e9', 5],
      authorizationServers: [url, [], [5], ['auth.example.com'], [url, 'http://b.example']],
      resourceName: ['', 'a\u0000b', 5],
      resourceDocumentation: ['docs', 5, 'javascript:alert(1)'],
      scopesSupported: NO_SCOPES,
      scopeImplies: [...NO_OBJECT, { 'mcp:write': 'mcp:read' }, { 'a b': ['c'] }, { a: ['b c'] }],
      signedMetadata: ['jwt', 5, {}],
      dpop: ['requried', true, {}, { mode: 'on' }],
      rateLimit: ['10', 10, { points: 0, durationSeconds: 1 }],
    },
  },
  {
    name: 'mcpAuth',
    call: (options) => kit.mcpAuth(oauth, options),
    wrong: { telemetry: [null, 5, {}], ...ORIGINS },
  },
  {
    name: 'dpop',
    heading: 'oauth-dpop',
    call: (dpop) => kit.mcpAuth({ ...oauth, dpop }),
    good: { mode: 'allowed' },
    wrong: {
      mode: ['requried', true, null],
      algorithms: ['ES256', [], ['none'], ['HS256'], ['ES256', 'RS1'], [5]],
      replayStore: [{}, new Set()],
    },
    // The error names the option `mode`, which makes the value valid or invalid.
    elsewhere: { mode: 'dpop' },
  },
  {
    name: 'dpop.nonce',
    member: 'nonce',
    heading: 'oauth-dpop',
    call: (nonce) => kit.mcpAuth({ ...oauth, dpop: { mode: 'required', nonce } }),
    good: { secret: 'x'.repeat(32) },
    wrong: { secret: [undefined, 'short', 5] },
  },
  {
    name: 'rateLimit',
    heading: 'oauth-ratelimit',
    call: (rateLimit) => kit.mcpAuth({ ...oauth, rateLimit }),
    good: { points: 10, durationSeconds: 60 },
  },
  {
    name: 'jwtVerifier',
    call: async (options) => await kit.jwtVerifier(options)(withoutToken),
    good: { issuer: url, audience },
    wrong: {
      issuer: [undefined, ...NO_URL],
      issuers: [url, [], ['auth.example.com']],
      audience: [undefined, '', [], [5], [''], {}],
      resource: [audience, 5],
      jwksUri: NO_URL,
      publicKey: ['key', 'ssh-rsa AAAA', 5, {}, { kty: 'oct', k: 'c2VjcmV0' }, { keys: [] }],
      algorithms: ['RS256', [], ['HS256'], ['none'], [5]],
      requiredClaims: ['sub', [5], ['']],
      clientCertificate: ['header', {}, true],
    },
    elsewhere: { issuers: 'issuer' },
  },
  {
    name: 'introspectionVerifier',
    call: (options) => kit.introspectionVerifier(options),
    good: { endpoint: `${url}/introspect`, clientId: 'mcp', clientSecret: 'S', audience },
    wrong: {
      endpoint: [undefined, null, ...NO_URL, ...CREDENTIALS],
      audience: [undefined, null, '', true, [5]],
      resource: [audience, 5],
      issuer: NO_URL,
      requiredClaims: ['sub', [5]],
      clientCertificate: ['header', {}, true],
    },
  },
  { name: 'cachedVerifier', call: (options) => kit.cachedVerifier(verifyToken, options) },
  {
    name: 'shareInvalidations',
    call: (options) =>
      kit.shareInvalidations(kit.cachedVerifier(verifyToken), redis as Wrong, options).close(),
  },
  { name: 'redisEventBus', call: (options) => kit.redisEventBus(redis as Wrong, options).close() },
  { name: 'redisTaskStore', call: (options) => kit.redisTaskStore(redis as Wrong, options).close() },
  { name: 'redisEventStore', call: (options) => kit.redisEventStore(redis as Wrong, options).close() },
  { name: 'memoryEventStore', call: (options) => kit.memoryEventStore(options) },
  { name: 'memoryTaskStore', call: (options) => kit.memoryTaskStore(options) },
  {
    name: 'createMcpAdapter',
    call: (options) => kit.createMcpAdapter(options),
    good: { router: functionRouter },
    wrong: {
      router: [undefined, null, {}, 'router'],
      telemetry: [null, {}, 'telemetry'],
      ...ADAPTER,
    },
    elsewhere: { oauth: 'oauth' },
  },
  {
    name: 'KitMcpServer.withOptions',
    isListed: false,
    heading: 'createmcpadapter',
    call: (options) => kit.KitMcpServer.create().withOptions(options),
    wrong: ADAPTER,
  },
  {
    name: 'sessions',
    member: 'sessions',
    heading: 'createmcpadapter',
    call: (sessions) => kit.createMcpAdapter({ router, sessions }),
  },
  {
    name: 'streams',
    member: 'streams',
    heading: 'createmcpadapter',
    call: (streams) => kit.createMcpAdapter({ router, streams }),
  },
  {
    name: 'tasks',
    member: 'tasks',
    isListed: false,
    heading: 'createmcpadapter',
    call: (tasks) => kit.createMcpAdapter({ router, tasks }),
    wrong: { store: NO_OBJECT },
  },
  {
    name: 'serverInfo',
    member: 'serverInfo',
    heading: 'createmcpadapter',
    call: (serverInfo) => kit.createMcpAdapter({ router, serverInfo }),
    good: { name: 'notes', version: '1' },
    wrong: {
      icons: ['x', {}],
    },
  },
  {
    name: 'cache of the adapter',
    member: 'cache',
    heading: 'createmcpadapter',
    call: (cache) => kit.createMcpAdapter({ router, cache }),
  },
  {
    name: 'scopes of the adapter',
    member: 'scopes',
    heading: 'createmcpadapter',
    call: (scopes) => kit.createMcpAdapter({ router: functionRouter, scopes }),
    wrong: {
      tools: [...NO_OBJECT, { wipe: 'mcp:admin' }],
      prompts: [...NO_OBJECT, { write: ['a b'] }],
      resources: [...NO_OBJECT, { 'notes://{': ['mcp:read'] }, { 'notes://a': [5] }],
      public: [...NO_OBJECT, { tools: 'search' }, { prompts: [5] }, { resources: ['a b'] }],
    },
    elsewhere: { resources: '(?:resources|uriTemplate)' },
  },
  {
    name: 'tool',
    heading: 'kitmcprouter',
    call: (config) => router.tool('a', config, handle),
    good: { description: 'x', task: 'optional' },
    wrong: {
      ...DEFINITION,
      input: [{}, 'x', z.string()],
      output: [{}, 'x', null],
      limits: LIMITS,
      visibility: [[], 'model', ['user']],
    },
  },
  {
    name: 'app',
    heading: 'kitmcprouter',
    call: (config) => router.app('a', config),
    good: { html: '<p>' },
    wrong: {
      ...DEFINITION,
      html: [undefined, 5, '', 'a.html', './chart.html'],
      file: ['', 5, 'a.html', 'a\0b', '/nowhere/chart.html', new URL('https://example.com/a.html')],
      uri: ['chart', 'https://example.com/', 'UI://chart', 'ui://%63hart/a', 'ui:///a', 5],
      csp: [
        ...NO_OBJECT,
        { frameDomains: 'x' },
        ...NO_ORIGINS.map((origin) => ({ connectDomains: [origin] })),
      ],
      permissions: [...NO_OBJECT, { camera: true }],
      domain: ['', 'a b', 5],
    },
  },
  {
    name: 'prompt',
    heading: 'kitmcprouter',
    call: (config) => router.prompt('a', config, () => ''),
    good: { input: schema },
    wrong: {
      ...DEFINITION,
      input: [{}, 'x', z.string()],
      complete: [...NO_OBJECT, { a: 'x' }],
    },
  },
  {
    name: 'resource',
    heading: 'kitmcprouter',
    call: (config) => router.resource('a', config, handle),
    good: { uri: 'notes://a' },
    wrong: {
      ...DEFINITION,
      uri: [undefined, 'notes', '/notes', 5],
      size: NO_NUMBER,
      cache: [5, { cacheScope: 'shared' }],
    },
  },
  {
    name: 'resourceTemplate',
    heading: 'kitmcprouter',
    call: (config) => router.resourceTemplate('a', config, handle),
    good: { uriTemplate: 'notes://{id}' },
    wrong: {
      ...DEFINITION,
      uriTemplate: [
        ...['notes', 'notes://a', 'notes://{a,b}', 'notes://{a}/{a}', '{id}', 'notes://{id', 'notes://{}'],
        ...['notes://{id:3}', 'notes://a{#b}', undefined, 5],
      ],
      complete: [...NO_OBJECT, { id: 'x' }],
    },
  },
  {
    name: 'cache of a resource',
    heading: 'kitmcprouter',
    call: (cache) => router.resource('a', { uri: 'notes://a', cache }, handle),
  },
  {
    name: 'mcpCors',
    call: (options) => kit.mcpCors(options),
    wrong: { origin: [null, 5, {}, [5]], telemetry: [null, {}, 'telemetry'], ...ORIGINS },
  },
  {
    name: 'mcpServer',
    call: (options) => kit.mcpServer(kit.createMcpAdapter({ router }), options),
    good: { path: '/mcp' },
    wrong: {
      path: [null, 5, '', 'mcp', '/a?b', '/a#b', '/a/../b'],
      discovery: [
        ...NO_OBJECT.filter((value) => value !== undefined),
        ...['notes', 'a/b/c', `a/${'b'.repeat(199)}`, 5].map((name) => ({ name })),
        ...['', 'x'.repeat(101)].map((description) => ({ description })),
        ...[url, { url }, { source: 'github' }, { url: '/x', source: 'a' }].map((repository) => ({
          repository,
        })),
        ...['notes', 'urn:air:a b', `urn:${'a'.repeat(1_021)}`].map((identifier) => ({ identifier })),
        { catalog: 'no' },
      ],
    },
  },
  { name: 'protectedResourceRouter', call: (options) => kit.protectedResourceRouter(oauth, options) },
  {
    name: 'gracefulShutdown',
    call: (options) => kit.gracefulShutdown(createServer(), options),
    wrong: {
      tasks: [null, {}, 5],
      events: [null, {}, 5],
      telemetry: [null, {}, 'telemetry'],
      signals: ['SIGTERM', ['SIGKILL'], ['SIGTREM'], ['toString'], [undefined], [5]],
    },
  },
  {
    name: 'serveStdio',
    call: (options) => kit.serveStdio(router, options).close(),
    wrong: {
      telemetry: [null, {}, 'telemetry'],
    },
  },
  {
    name: 'loadSkills',
    call: (options) => loadSkills(skillFiles, options),
    wrong: {
      prefix: ['', '/', 'a/', '../a', 'a b', '.a', 'a'.repeat(300), ...NO_TEXT],
    },
  },
  {
    name: 'skills',
    heading: 'kitmcprouter',
    call: (config) => router.skills(skills, config),
    wrong: {
      scopes: ['mcp:read', [5], ['a b'], ['offline_access']],
      cache: [...NO_OBJECT, { ttlMs: -1 }],
    },
  },
  {
    name: 'toolsFromOpenApi',
    call: (options) => toolsFromOpenApi(document, options),
    good: { app },
    wrong: {
      baseUrl: [url, 'api.example.com'],
      basePath: ['api', 5],
      include: [...NO_OBJECT, { tags: ['pets'] }, { tags: 'pet' }],
      public: [...NO_OBJECT, {}, { tags: ['pets'] }, () => undefined, async () => true],
    },
  },
  {
    name: 'upstreamToken',
    call: (options) => upstreamToken(options),
    good: { issuer: url, clientId: 'mcp', clientSecret: 's', style: 'token-exchange' },
    wrong: {
      issuer: [undefined, ...NO_URL],
      tokenEndpoint: [url, 'token'],
      audience: [5, [5], ['']],
      resource: [5, ['api'], 'api'],
      scope: [5, ['a b'], 'a\u00e9'],
      cache: [...NO_OBJECT, { maxEntries: 0 }, { store: {} }, { secret: 5 }],
    },
  },
  {
    name: 'authorizationFacade',
    call: (options) => authorization.authorizationFacade(options),
    good: {
      url: 'http://127.0.0.1:3000',
      resource: audience,
      upstream: authorization.google({ clientId: 'a', clientSecret: 'b' }),
      scopes: { 'mcp:read': 'Read your notes' },
      allow: 'everyone',
    },
    wrong: {
      url: [undefined, ...NO_URL, 'https://mcp.example.com/', 'https://MCP.example.com'],
      resource: [undefined, 5, [], ['mcp'], [audience, audience], ...NOT_COMPARABLE],
      upstream: [undefined, {}, 'google', 5],
      scopes: [undefined, 5, {}, { 'mcp:read': '' }, { 'a b': 'x' }, { openid: 'x' }],
      clients: [
        ...NO_OBJECT,
        null,
        { registration: 5 },
        { metadataDocuments: 5 },
        { redirectUris: ['x'] },
        { static: {} },
        { static: null },
        { static: [{}] },
        { static: [{ clientId: 'a', redirectUris: ['http://example.com'] }] },
        { allow: true },
        { unusedTtlDays: 0 },
        { maxRegistrationsPerMinute: 0 },
        { maxRegistrationsPerMinute: 1.5 },
      ],
      identityAssertions: [
        ...NO_OBJECT,
        {},
        { issuers: [] },
        { issuers: ['https://login.example.com'] },
        { issuers: [{}] },
        { issuers: [{ issuer: 'http://login.example.com' }] },
        { issuers: [{ issuer: 'https://login.example.com/|' }] },
        { issuers: [{ issuer: 'http://127.0.0.1:3000' }] },
        { issuers: [{ issuer: url }, { issuer: url }] },
        { issuers: [{ issuer: url, jwksUri: 'keys' }] },
        { issuers: [{ issuer: url, tenant: 5 }] },
      ],
      tokens: [
        ...NO_OBJECT,
        null,
        { accessTtlSeconds: 59 },
        { accessTtlSeconds: 86_401 },
        { accessTtlSeconds: 600.5 },
        { refreshTtlSeconds: 0 },
        { refreshIdleSeconds: '60' },
        { grantTtlSeconds: Number.POSITIVE_INFINITY },
        { refreshGraceSeconds: -1 },
        { refreshGraceSeconds: 601 },
        { reuse: 'ignore' },
      ],
      grants: [...NO_OBJECT, null, { accessSeconds: 0 }, { accessSeconds: 601 }, { accessSeconds: 1.5 }],
      store: [...NO_OBJECT, {}],
      keys: [
        ...NO_OBJECT,
        {},
        { signing: [], encryption: [] },
        { signing: [{}], encryption: ['x'.repeat(32)] },
        { signing: [{ use: 'enc' }], encryption: ['x'.repeat(32)] },
      ],
      telemetry: [5, {}],
      clientAddress: [5, 'x', null],
      page: [...NO_OBJECT, null, { title: 5 }, { logo: 'http://example.com/logo.svg' }, { links: [{}] }],
    },
  },
  ...(['oidc', 'entra', 'google', 'github', 'cognito'] as const).map((name) => ({
    name,
    heading: 'authorizationfacade',
    call: (options: Wrong) => providers[name]?.(options),
    good: {
      clientId: 'a',
      clientSecret: 'b',
      ...{
        oidc: { issuer: url },
        entra: { tenantId: '11111111-2222-3333-4444-555555555555' },
        google: {},
        github: {},
        cognito: { userPoolId: 'eu-central-1_aBcDeFgHi' },
      }[name],
    },
    wrong: {
      scopes: [5, ['a b'], ...(name === 'github' ? [] : [['email']])],
      ...{
        oidc: { issuer: [undefined, ...NO_URL] },
        entra: { tenantId: [undefined, 'common', 'example.com', 5] },
        google: {},
        github: { baseUrl: NO_URL },
        cognito: { userPoolId: [undefined, 'pool', 5] },
      }[name],
    } as Record<string, readonly unknown[]>,
  })),
  {
    name: 'include',
    member: 'include',
    heading: 'toolsfromopenapi',
    call: (include) => toolsFromOpenApi(document, { app, include }),
    wrong: { tags: ['pet', [5], ['pets']], operationIds: ['x', ['listPet']], paths: ['/pets', ['/pet']] },
  },
  {
    name: 'public',
    member: 'public',
    heading: 'toolsfromopenapi',
    call: (selection) => toolsFromOpenApi(document, { app, public: selection }),
    good: { tags: ['pet'], paths: ['/pets'] },
    wrong: { tags: ['pet', [5], ['pets']], operationIds: ['x', ['listPet']], paths: ['/pets', ['/pet']] },
  },
  {
    name: 'callTool',
    call: (options) => callTool((_req, res) => res.end(), 'greet', {}, options),
    wrong: { token: ['a b', 'a\n'], path: ['mcp', ''] },
  },
  { name: 'createTestIssuer', call: (options) => createTestIssuer(options) },
  {
    name: 'issueToken',
    heading: 'createtestissuer',
    call: (options) => createTestIssuer().issueToken(options),
    wrong: {
      scopes: ['mcp:read', [5]],
      expiresIn: ['300', Number.NaN],
    },
  },
  {
    name: 'withSampling',
    call: (policy) => telemetry().withSampling(policy),
    wrong: {
      always: ['a.*', [5], ['']],
      never: ['a.*', [5], ['']],
      keep: [5, null, ['level'], { level: 'error' }],
    },
  },
  {
    name: 'withSampling with keep',
    member: 'keep',
    heading: 'withsampling',
    call: (keep) => telemetry().withSampling({ unit: 'session', keep }),
    good: { level: 'error', slowerThanMs: 100 },
    wrong: {
      names: ['a.*', [5], ['']],
    },
  },
  {
    name: 'withAudit',
    call: (options) => telemetry().withAudit(options),
    good: { transport: kit.InMemoryTransportAdapter.create(), names: ['a.*'], secret: 'x'.repeat(32) },
    wrong: {
      transport: [
        ...[undefined, null, 5, 'x', {}, { type: 'x' }, { type: '', handle }],
        { type: 'x', handle, flush: 5 },
        { type: 'x', handle, maxPending: 0 },
        kit.TeamChatTransportAdapter.create({ webhookUrl }),
        kit.CommunityChatTransportAdapter.create({ webhookUrl }),
        kit.ErrorTrackerTransportAdapter.create({ sdk: { captureException() {} } as never }),
        kit.LoggerTransportAdapter.create({ logger }),
        kit.LoggerTransportAdapter.create({ logger, format: 'json', includeTimestamp: false }),
        kit.LoggerTransportAdapter.create({ logger, format: 'json', minLevel: 'info' }),
      ],
      names: [undefined, null, 'a.*', [5], [''], []],
      secret: [undefined, null, 5, '', 'x'.repeat(31), new Uint8Array(31), {}],
    },
  },
  {
    name: 'withRedaction',
    call: (policy) => telemetry().withRedaction(policy),
    wrong: {
      denylistKeys: ['password', [5], ['']],
      hashKeys: ['email', [5], ['']],
      patterns: ['email', [5], [{}], [{ name: 'x', pattern: 'x' }], [{ name: 'a b', pattern: /x/ }]],
    },
  },
  { name: 'withValidation', call: (options) => telemetry().withValidation(options) },
  { name: 'addEvents', call: (options) => telemetry().addEvents(events, options) },
  {
    name: 'addTransport',
    call: (options) => telemetry().addTransport(kit.InMemoryTransportAdapter.create(), options),
  },
  ...(['addActor', 'addScope'] as const).map((name) => ({
    name,
    call: (options: Wrong) => telemetry()[name]('user', options),
  })),
  { name: 'httpTelemetry', call: (options) => httpTelemetry(telemetry().build(), options) },
  {
    name: 'LoggerTransportAdapter.create',
    call: (options) => kit.LoggerTransportAdapter.create(options),
    good: { logger },
    wrong: { logger: [{}, { info() {}, warn() {}, error() {} }], names: ['json', 5, 'ecs'] },
  },
  {
    name: 'DevConsoleTransportAdapter.create',
    call: (options) => kit.DevConsoleTransportAdapter.create(options),
    wrong: { url: ['example.com', 5, 'https://127.0.0.1', 'http://example.com'] },
  },
  {
    name: 'HttpTransportAdapter.create',
    call: (options) => kit.HttpTransportAdapter.create(options),
    good: { url: webhookUrl },
    wrong: {
      url: [undefined, '/events', 'example.com', 5, 'file:///events', 'https://ada:pw@example.com'],
      headers: [...NO_OBJECT, { 'a b': 'x' }, { a: 5 }, { Connection: 'close' }],
      batch: NO_OBJECT,
      serialize: ['xml', 5, {}],
      ...CONNECTION,
    },
  },
  {
    name: 'batch of HttpTransportAdapter.create',
    member: 'batch',
    heading: 'httptransportadaptercreate',
    call: (batch) => kit.HttpTransportAdapter.create({ url: webhookUrl, batch }),
    good: { maxSize: 5, maxDelayMs: 10 },
  },
  { name: 'auditFile', call: (options) => auditFile('audit.log', options), good: { fsync: true } },
  {
    name: 'OtlpTransportAdapter.create',
    call: (options) => kit.OtlpTransportAdapter.create(options),
    good: { url: 'http://localhost:4318' },
    wrong: {
      url: [undefined, '', 'localhost:4318', 'localhost', 5, 'ftp://collector', 'https://ada:pw@example.com'],
      headers: [...NO_OBJECT, { 'a b': 'x' }, { a: 5 }],
      resource: [...NO_OBJECT, { a: null }, { a: {} }, { a: ['x', 1] }],
      agent: [null, {}, 'agent', 5],
    },
  },
  {
    name: 'ErrorTrackerTransportAdapter.create',
    call: (options) => kit.ErrorTrackerTransportAdapter.create(options),
    good: { sdk: { captureException() {} } },
    wrong: { sdk: [undefined, {}, 'sdk', { addBreadcrumb() {} }] },
  },
  {
    name: 'TeamChatTransportAdapter.create',
    call: (options) => kit.TeamChatTransportAdapter.create(options),
    good: { webhookUrl },
    wrong: {
      webhookUrl: CREDENTIALS,
      iconEmoji: ['bar_chart', 5],
      ...CONNECTION,
    },
  },
  {
    name: 'CommunityChatTransportAdapter.create',
    call: (options) => kit.CommunityChatTransportAdapter.create(options),
    good: { webhookUrl },
    wrong: {
      webhookUrl: CREDENTIALS,
      username: ['', ' ', 'x'.repeat(81), 'My Discord', 'CLYDE', 'here', 'everyone', 5],
      ...CONNECTION,
    },
  },
  {
    name: 'MessengerTransportAdapter.create',
    call: (options) => kit.MessengerTransportAdapter.create(options),
    good: { botToken: '1:a', chatId: '5' },
    wrong: {
      botToken: ['1:x/y'],
      apiRoot: ['example.com', 5, 'https://example.com?a=b'],
      ...CONNECTION,
    },
  },
  {
    name: 'StoreStreamTransportAdapter.create',
    call: (options) => kit.StoreStreamTransportAdapter.create(options),
    good: { store: { xadd: async () => '' } },
    wrong: { store: [undefined, {}, 'redis', { get() {} }] },
  },
]

/** Every function that takes options. A new option fails the tests until it has an entry here. */
export const TAKERS: readonly OptionsTaker[] = ENTRIES.map((entry) => ({
  heading: entry.name.toLowerCase().replaceAll('.', ''),
  good: {},
  ...entry,
}))

/** Invalid arguments that are not options, by the heading of their error. */
export const ARGUMENTS: Readonly<
  Record<string, readonly (readonly [what: string, names: RegExp, call: () => unknown])[]>
> = {
  servestdio: [
    ['a function router', /^router /, () => kit.serveStdio(functionRouter)],
    [
      'a router with scopes that is not trusted',
      /^trustLocal /,
      () => kit.serveStdio(router.tool('wipe', { description: 'Wipes', scopes: ['mcp:admin'] }, handle)),
    ],
  ],
  firstmatch: [
    ['no verifiers', /^verifiers /, () => kit.firstMatch()],
    ['a URL instead of a verifier', /^verifiers /, () => kit.firstMatch(url as Wrong)],
  ],
  cachedverifier: [
    ['a number instead of a verifier to cache', /^verifier /, () => kit.cachedVerifier(5 as Wrong)],
  ],
  shareinvalidations: [
    [
      'a verifier without a cache to share',
      /^verifier /,
      () => kit.shareInvalidations(verifyToken as Wrong, redis as Wrong),
    ],
    [
      'a URL instead of a Redis client for invalidations',
      /^shareInvalidations /,
      () => kit.shareInvalidations(kit.cachedVerifier(verifyToken), url as Wrong),
    ],
  ],
  rediseventbus: [
    [
      'an empty object instead of a Redis client for events',
      /^redisEventBus /,
      () => kit.redisEventBus({} as Wrong),
    ],
  ],
  redisreplaystore: [
    [
      'a URL instead of a Redis client for proofs',
      /^replayStore /,
      () => kit.redisReplayStore('redis://localhost' as Wrong),
    ],
    ['a number instead of a prefix', /^prefix /, () => kit.redisReplayStore({ set() {} }, 5 as Wrong)],
  ],
  redistaskstore: [
    [
      'a URL instead of a Redis client for tasks',
      /^client /,
      () => kit.redisTaskStore('redis://localhost' as Wrong),
    ],
  ],
  kitmcprouter: [
    ['a tool without a name', /^tool /, () => router.tool('' as Wrong, { description: 'x' }, handle)],
    [
      'a tool without a handler',
      /^handler /,
      () => router.tool('a', { description: 'x' }, undefined as Wrong),
    ],
    [
      'a tool registered twice',
      /^tool 'a' /,
      () => router.tool('a', { description: 'x' }, handle).tool('a', { description: 'x' }, handle),
    ],
    ['an object instead of a context function', /^context /, () => router.context({} as Wrong)],
    ['a merge without a router', /^merge /, () => router.merge('a', {} as Wrong)],
    ['a promise of skills', /^skills /, () => router.skills(loadSkills(skillFiles) as Wrong)],
    [
      'a skill with the name of a resource',
      /^skills /,
      () => router.resource('a', { uri: 'notes://a' }, handle).skills(skills),
    ],
  ],
  createmcpadapter: [
    [
      'scopes for a router that declares its own',
      /^scopes /,
      () => kit.createMcpAdapter({ router, scopes: {} }),
    ],
    ['a server without a router', /^router /, () => kit.KitMcpServer.create().build()],
  ],
  mcpauth: [
    [
      'telemetry next to an adapter',
      /^telemetry /,
      () =>
        kit.mcpAuth(kit.createMcpAdapter({ router, oauth }), {
          telemetry: kit.KitTelemetry.create().build(),
        }),
    ],
    ['an adapter without OAuth', /^oauth /, () => kit.mcpAuth(kit.createMcpAdapter({ router }))],
    [
      'a copy of an adapter',
      /^target /,
      () => kit.protectedResourceRouter({ ...kit.createMcpAdapter({ router, oauth }) } as Wrong),
    ],
  ],
  mcphandler: [
    ['an empty object instead of an adapter to serve', /^adapter /, () => kit.mcpHandler({} as Wrong)],
  ],
  mcpserver: [
    ['an empty object instead of an adapter to mount', /^adapter /, () => kit.mcpServer({} as Wrong)],
    [
      'a path next to a fixed resource',
      /^path /,
      () =>
        kit.mcpServer(kit.createMcpAdapter({ router, oauth: { ...oauth, resource: audience } }), {
          path: '/mcp',
        }),
    ],
  ],
  aicatalog: [['an empty array of adapters', /^adapters /, () => kit.aiCatalog([])]],
  gracefulshutdown: [
    [
      'a function instead of a server to shut down',
      /^server .*app\.listen/,
      () => kit.gracefulShutdown(app as Wrong),
    ],
    ['no server to shut down', /^server .*node:http/, () => kit.gracefulShutdown(undefined as Wrong)],
  ],
  loadskills: [
    ['a folder that does not exist', /^source /, () => loadSkills('/does/not/exist')],
    ['a number instead of a folder', /^source /, () => loadSkills(5 as Wrong)],
    ['a folder without a skill', /^source /, () => loadSkills({})],
  ],
  toolsfromopenapi: [
    ['a number instead of a document', /^document /, () => toolsFromOpenApi(5 as Wrong, { app })],
    ['a path instead of a document', /^document /, () => toolsFromOpenApi('./openapi.yaml', { app })],
    ['invalid JSON as a document', /^document /, () => toolsFromOpenApi('{"openapi"', { app })],
    ['generated tools without options', /^options /, () => toolsFromOpenApi(document, undefined as Wrong)],
  ],
  auditfile: [
    [
      'a file descriptor as the path of an audit file',
      /^the first argument of auditFile\(\) /,
      () => auditFile(3 as Wrong),
    ],
  ],
  withversion: [
    ['a version without a name', /withVersion/, () => telemetry().withVersion('')],
    ['a version that is a number', /withVersion/, () => telemetry().withVersion(1 as Wrong)],
  ],
  withlogger: [['a logger without methods', /withLogger/, () => telemetry().withLogger({} as Wrong)]],
  addevents: [['an object that is not a registry', /addEvents/, () => telemetry().addEvents({} as Wrong)]],
  telemetry_invalid_transport: [
    [
      'a class instead of a transport',
      /received the class InMemoryTransportAdapter/,
      () => telemetry().addTransport(kit.InMemoryTransportAdapter as Wrong),
    ],
    [
      'a transport whose flush is a number',
      /^flush /,
      () => telemetry().addTransport({ type: 'x', handle, flush: 1 } as Wrong),
    ],
  ],
  addtransport: [
    [
      'a transport with maxPending 0',
      /maxPending/,
      () => telemetry().addTransport({ type: 'x', handle, maxPending: 0 }),
    ],
  ],
  event: [
    [
      'an event without a schema',
      /^event\('paid'/,
      () => kit.KitTelemetryEvents.namespace('a').event('paid', {} as Wrong),
    ],
  ],
  group: [
    [
      'a group without a function',
      /group/,
      () => kit.KitTelemetryEvents.namespace('a').group('b', 5 as Wrong),
    ],
    [
      'a group that is not returned',
      /group/,
      () => kit.KitTelemetryEvents.namespace('a').group('b', (() => {}) as Wrong),
    ],
  ],
}
