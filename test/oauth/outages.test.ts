import { expect } from 'chai'
import {
  createMcpAdapter,
  introspectionVerifier,
  jwtVerifier,
  KitMcpRouter,
  type VerifyToken,
} from '../../src/index.ts'
import { outageReason } from '../../src/oauth/outages.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { listen } from '../support/listen.ts'
import {
  AUDIENCE,
  createSigningKey,
  ISSUER,
  type SigningKey,
  signToken,
  startKeyServer,
} from '../support/tokens.ts'

type Documents = (origin: string) => Readonly<Record<string, unknown>>

const METADATA = '/.well-known/oauth-authorization-server'
const OPENID = '/.well-known/openid-configuration'

type Outage = readonly [
  what: string,
  verifier: (origin: string, closed: string) => VerifyToken,
  reason: (origin: string, closed: string) => string,
  status?: number | undefined,
  documents?: Documents,
]

const keysAt = (jwksUri: string): VerifyToken => jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, jwksUri })
const found = (issuer: string): VerifyToken => jwtVerifier({ issuer, audience: AUDIENCE })
const asked = (endpoint: string): VerifyToken =>
  introspectionVerifier({ endpoint, clientId: 'c', clientSecret: 'a-secret', audience: AUDIENCE })

const OUTAGES: readonly Outage[] = [
  [
    'a JWKS at a closed port',
    (_, closed) => keysAt(`${closed}/jwks?key=a-secret`),
    (_, closed) =>
      `the JWKS of ${ISSUER} at ${closed}/jwks is unavailable: the request failed (ECONNREFUSED)`,
  ],
  [
    'a JWKS at a port that fetch refuses',
    () => keysAt('http://127.0.0.1:9/jwks'),
    () =>
      `the JWKS of ${ISSUER} at http://127.0.0.1:9/jwks is unavailable: the request failed (fetch has refused the port)`,
  ],
  [
    'a JWKS with the status 500',
    (origin) => keysAt(`${origin}/jwks`),
    (origin) => `the JWKS of ${ISSUER} at ${origin}/jwks is unavailable: the response has the status 500`,
    500,
  ],
  [
    'a JWKS without keys',
    (origin) => keysAt(`${origin}/jwks`),
    (origin) =>
      `the JWKS of ${ISSUER} at ${origin}/jwks is unavailable: the member keys must be a list of JSON Web Keys`,
    undefined,
    () => ({ '/jwks': {} }),
  ],
  [
    'metadata that name another issuer',
    found,
    (origin) =>
      `the metadata document of ${origin} is unavailable: ${origin}${METADATA}: issuer must be "${origin}"; received "http://keycloak:8080/realms/r"`,
    undefined,
    () => ({ [METADATA]: { issuer: 'http://keycloak:8080/realms/r', jwks_uri: 'x' } }),
  ],
  [
    'metadata without jwks_uri',
    found,
    (origin) =>
      `the metadata document of ${origin} is unavailable: ${origin}${METADATA}: the metadata document has no jwks_uri`,
    undefined,
    (origin) => ({ [METADATA]: { issuer: origin }, [OPENID]: { issuer: origin } }),
  ],
  [
    'an introspection endpoint at a closed port',
    (_, closed) => asked(`${closed}/introspect`),
    (_, closed) =>
      `the introspection endpoint ${closed}/introspect could not be reached: the request failed (ECONNREFUSED)`,
  ],
  [
    'an introspection endpoint with the status 500',
    (origin) => asked(`${origin}/introspect`),
    (origin) => `the introspection endpoint ${origin}/introspect responded with 500`,
    500,
  ],
]

it('the reason of a response that is not JSON is not its status', () => {
  expect(outageReason(new Error('not JSON', { cause: new Response('<html>') }))).to.equal('not JSON')
})

describe('the reason of a 503', () => {
  const { error } = console
  let lines: string[]
  let key: SigningKey
  before(async () => {
    key = await createSigningKey('ES256', 'one')
  })
  beforeEach(() => {
    lines = []
    console.error = (line: string) => void lines.push(line)
  })
  afterEach(() => {
    console.error = error
  })

  for (const [what, verifier, reason, status, documents] of OUTAGES)
    it(`${what} is in the line on stderr and in the event, without secrets`, async () => {
      const server = await startKeyServer([key], documents)
      if (status !== undefined) server.answer((_, res) => res.writeHead(status).end())
      const gone = await listen(() => undefined)
      gone.server.close()
      const token = await signToken(key, verifier === found ? { iss: server.origin } : {})
      const memory = InMemoryTransportAdapter.create()
      const telemetry = KitTelemetry.create().withLogger(false).addTransport(memory).build()
      const verifyToken = verifier(server.origin, gone.origin)
      for (const observed of [undefined, telemetry]) {
        const { server: serve } = createMcpAdapter({
          router: KitMcpRouter.create(),
          oauth: { issuer: 'https://auth.example.com', resource: AUDIENCE, verifyToken },
          ...(observed !== undefined && { telemetry: observed }),
        })
        const headers = { authorization: `Bearer ${token}` }
        const response = await serve(new Request(AUDIENCE, { method: 'POST', headers }))
        expect(response.status).to.equal(503)
        expect(await response.text()).not.to.contain(gone.origin)
      }
      await telemetry.flush()
      const expected = reason(server.origin, gone.origin)
      expect(lines.filter((line) => line.includes(expected))).to.have.length(1)
      const [event] = memory.getEvents()
      expect(event?.error?.message).to.contain(expected)
      expect(JSON.stringify([lines, event]))
        .not.to.contain('a-secret')
        .and.not.to.contain(token)
    })
})
