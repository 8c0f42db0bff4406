import { once } from 'node:events'
import { expect } from 'chai'
import { protectedResourceRouter } from '../../../src/express/protected-resource-router.ts'
import { cachedVerifier, firstMatch, jwtVerifier, mcpAuth, type OAuthOptions } from '../../../src/index.ts'
import { introspectionVerifier } from '../../../src/oauth/verifiers/introspection.ts'
import type { JwtVerifierOptions } from '../../../src/oauth/verifiers/jwt-options.ts'

const ISSUER = 'https://auth.example.com'
const RESOURCE = 'https://mcp.example.com/mcp'
const GATE = { issuer: ISSUER, resource: RESOURCE }

const jwt = (options: JwtVerifierOptions = {}) =>
  jwtVerifier({ issuer: ISSUER, audience: RESOURCE, ...options })
const opaque = (options: object = {}) =>
  introspectionVerifier({
    endpoint: `${ISSUER}/introspect`,
    clientId: 'a',
    clientSecret: 'b',
    audience: RESOURCE,
    ...options,
  })

/** Returns the warnings that are written when a gate is made. */
async function warningsOf(oauth: OAuthOptions, copy?: OAuthOptions): Promise<string[]> {
  const texts: string[] = []
  const listen = (warning: Error) => {
    if (warning.name === 'KitMcpWarning') texts.push(warning.message)
  }
  process.on('warning', listen)
  try {
    // Both take the same options, so they are one gate. A copy is another gate with the same values.
    mcpAuth(oauth)
    protectedResourceRouter(oauth)
    if (copy !== undefined) protectedResourceRouter(copy)
    const ended = once(process, 'warning')
    process.emitWarning('end')
    await ended
    return texts
  } finally {
    process.off('warning', listen)
  }
}

const quiet: readonly (readonly [title: string, oauth: OAuthOptions])[] = [
  ['the same values', { ...GATE, verifyToken: jwt() }],
  ['values of the gate', { ...GATE, verifyToken: jwtVerifier() }],
  [
    'a function for issuers',
    { ...GATE, verifyToken: jwtVerifier({ audience: RESOURCE, issuers: () => false }) },
  ],
  [
    'a function for authorizationServers',
    {
      ...GATE,
      authorizationServers: () => ['https://login.example.org'],
      verifyToken: jwt({ issuer: 'https://login.example.org' }),
    },
  ],
  [
    'several audiences of which one is the resource',
    { ...GATE, verifyToken: jwt({ audience: ['x', RESOURCE] }) },
  ],
  [
    'an audience with the optional slash',
    {
      issuer: ISSUER,
      resource: 'https://mcp.example.com/',
      verifyToken: jwt({ audience: 'https://mcp.example.com', audienceSlash: 'optional' }),
    },
  ],
  [
    'several issuers of which one is that of the gate',
    { ...GATE, verifyToken: jwtVerifier({ issuers: ['https://b.example', ISSUER], audience: RESOURCE }) },
  ],
  [
    'the issuer of another authorization server of the gate',
    {
      ...GATE,
      authorizationServers: [ISSUER, 'https://b.example'],
      verifyToken: firstMatch(jwt(), jwt({ issuer: 'https://b.example' })),
    },
  ],
  ['an audience without a fixed resource', { issuer: ISSUER, verifyToken: jwt({ audience: 'notes' }) }],
  [
    'an intended difference',
    { ...GATE, verifyToken: jwt({ issuer: 'https://b.example', audience: 'notes', allowMismatch: true }) },
  ],
  [
    'an introspection that does not check the audience',
    { ...GATE, verifyToken: opaque({ audience: false }) },
  ],
  [
    'an intended difference of an introspection',
    { ...GATE, verifyToken: opaque({ audience: 'notes', allowMismatch: true }) },
  ],
  ['a verifier of the application', { ...GATE, verifyToken: () => undefined }],
]

const warned: readonly (readonly [title: string, oauth: OAuthOptions, text: RegExp])[] = [
  [
    'another audience',
    { ...GATE, verifyToken: jwt({ audience: 'notes' }) },
    /^jwtVerifier: the option audience is "notes", but the option resource of the gate is "https:\/\/mcp\.example\.com\/mcp"\..* set the option allowMismatch of jwtVerifier to true\.$/,
  ],
  [
    'an issuer with a slash',
    { ...GATE, verifyToken: jwt({ issuer: `${ISSUER}/` }) },
    /^jwtVerifier: the option issuer is "https:\/\/auth\.example\.com\/", but the option issuer of the gate is "https:\/\/auth\.example\.com"/,
  ],
  [
    'both',
    { ...GATE, verifyToken: jwt({ issuer: 'https://b.example', audience: 'notes' }) },
    /^jwtVerifier: the option issuer is .*, and the option audience is "notes", but .*\. Tokens/,
  ],
  [
    'an issuer next to the audience of the gate',
    { ...GATE, verifyToken: jwtVerifier({ issuer: 'https://b.example' }) },
    /option issuer is/,
  ],
  [
    'a cached verifier',
    { ...GATE, verifyToken: cachedVerifier(jwt({ audience: 'notes' })) },
    /option audience is/,
  ],
  [
    'one of several verifiers',
    { ...GATE, verifyToken: firstMatch(jwt(), jwt({ issuer: 'https://b.example' })) },
    /option issuer is/,
  ],
  [
    'an introspection',
    { ...GATE, verifyToken: opaque({ issuer: 'https://b.example', audience: 'notes' }) },
    /^introspectionVerifier: the option issuer is .*, and the option audience is/,
  ],
]

describe('verifiers whose issuer or audience differs from the gate', () => {
  for (const [title, oauth] of quiet)
    it(`${title}: no warning`, async () => expect(await warningsOf(oauth)).to.deep.equal([]))

  for (const [title, oauth, text] of warned)
    it(`${title}: one warning that names each difference`, async () => {
      const found = await warningsOf(oauth, { ...oauth })
      expect(found).to.have.length(1)
      expect(found[0]).to.match(text)
    })
})
