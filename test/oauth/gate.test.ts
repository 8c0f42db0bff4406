import { execFile } from 'node:child_process'
import { inspect, promisify } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import type { PlainResponse } from '../../src/base/http/plain-response.ts'
import { type AuthInfo, VerifierUnavailableError } from '../../src/index.ts'
import type { Decision } from '../../src/oauth/decision.ts'
import { type ContextFactory, Gate, type GateRequest } from '../../src/oauth/gate.ts'
import { RequestContext } from '../../src/oauth/inputs.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../../src/oauth/options.ts'
import { parseChallenge } from '../support/challenge.ts'

const ISSUER = 'https://auth.example.com'
const METADATA = 'https://mcp.example.com/.well-known/oauth-protected-resource'
/** A string that no response may contain. */
const LEAK = 'leak-of-another-user'

const emptyContext: ContextFactory = (request) => new RequestContext(request, {})

function gateWith(options: Partial<OAuthOptions> = {}, makeContext: ContextFactory = emptyContext): Gate {
  const usual = { issuer: ISSUER, verifyToken: async () => ({ valid: true }) }
  return new Gate(resolveOAuthOptions({ ...usual, ...options }), [], makeContext)
}

type Authorization = GateRequest['authorization']

/** Creates a request with this header. Without an argument the header is valid; `undefined` omits it. */
function requestWith(...given: [] | [authorization: Authorization]): GateRequest {
  return {
    authorization: given.length === 0 ? 'Bearer good' : given[0],
    method: 'POST',
    get request() {
      return new Request('https://mcp.example.com/mcp')
    },
    origin: 'https://mcp.example.com',
    path: '/mcp',
  }
}

/** Returns the response of the gate, or the verified token if it accepts the request. */
async function run(gate: Gate, request = requestWith()): Promise<PlainResponse | AuthInfo> {
  const decision = await gate.authenticate(request)
  if (decision.outcome !== 'accepted') return gate.responseTo(decision, request)
  return gate.permits(decision.auth.scopes)
    ? decision.auth
    : gate.responseTo(gate.insufficientScope(), request)
}

/** Returns the decision for a request whose verifier returns `result`. */
async function decisionOn(result: unknown, options: Partial<OAuthOptions> = {}): Promise<Decision> {
  return await gateWith({ ...options, verifyToken: (async () => result) as never }).authenticate(
    requestWith(),
  )
}

async function authOf(result: unknown, options: Partial<OAuthOptions> = {}): Promise<AuthInfo> {
  const decision = await decisionOn(result, options)
  if (decision.outcome !== 'accepted') throw new Error(`not accepted but ${inspect(decision)}`)
  return decision.auth
}

/** Creates an object with this `then`, such as a promise of another library. */
function thenable(then: () => unknown): object {
  return Object.defineProperty({}, 'then', { get: then })
}

/** Runs a process that nothing else keeps alive, and returns what it prints about its responses. */
async function answersOf(options: string): Promise<unknown> {
  const index = JSON.stringify(new URL('../../src/index.js', import.meta.url).href)
  const program = `
    const { createMcpAdapter, KitMcpRouter } = await import(${index})
    const never = new Promise(() => {})
    const good = async () => ({ valid: true })
    const oauth = { issuer: 'https://auth.example.com', verifyTimeoutMs: 50, verifyToken: good, ...(${options}) }
    const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
    const ask = () => server(new Request('http://localhost/mcp', { headers: { authorization: 'Bearer x' } }))
    const responses = [await ask(), ...(await Promise.all([ask(), ask()]))]
    console.log(JSON.stringify(responses.map(({ status }) => status)))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  return JSON.parse(stdout)
}

describe('the gate', () => {
  describe('challenges', () => {
    it('with challengeWithoutToken bare, the challenge for a request without a token has no error code', async () => {
      const gate = gateWith({ challengeWithoutToken: 'bare', scopes: ['mcp:read'] })
      for (const authorization of [undefined, '', 'Basic YTpi', 'Digest a']) {
        expect(await run(gate, requestWith(authorization)), authorization).to.deep.equal({
          status: 401,
          headers: {
            'Content-Type': 'application/json',
            'Cache-Control': 'no-store',
            'WWW-Authenticate': `Bearer realm="mcp-server", scope="mcp:read", resource_metadata="${METADATA}"`,
          },
          body: '{"error":"invalid_token","error_description":"An access token is required"}',
        })
      }
    })

    it('with challengeWithoutToken bare, the DPoP challenge for a request without a token has no error code', async () => {
      const gate = gateWith({ challengeWithoutToken: 'bare', dpop: 'allowed' })
      const { headers } = (await run(gate, requestWith(undefined))) as PlainResponse
      expect(headers['WWW-Authenticate']).to.match(
        /^Bearer realm="mcp-server", resource_metadata="[^"]*", DPoP algs="[^"]*"$/,
      )
    })

    it('with challengeWithoutToken bare, a refused token gets the usual challenge', async () => {
      for (const authorization of ['Bearer wrong', 'Bearer', 'Bearer a b']) {
        const [bare, usual] = await Promise.all(
          (['bare', 'error'] as const).map((challengeWithoutToken) =>
            run(
              gateWith({ challengeWithoutToken, verifyToken: () => undefined }),
              requestWith(authorization),
            ),
          ),
        )
        expect(bare).to.deep.equal(usual)
        expect(bare)
          .to.have.nested.property('headers.WWW-Authenticate')
          .that.includes('error="invalid_token"')
      }
    })

    const metadataUrls: readonly (readonly [
      what: string,
      options: Partial<OAuthOptions>,
      request: { origin?: string | undefined; path?: string; suffixed?: boolean },
      url: string | undefined,
    ])[] = [
      [
        'the root form for a resource without a path',
        { resource: 'https://api.example.org' },
        { suffixed: true },
        'https://api.example.org/.well-known/oauth-protected-resource',
      ],
      [
        'the configured path',
        { resourceMetadataPath: '/meta' },
        { suffixed: true },
        'https://mcp.example.com/meta/mcp',
      ],
      [
        'resource also without a usable host',
        { resource: 'https://api.example.org/mcp' },
        { origin: undefined },
        'https://api.example.org/.well-known/oauth-protected-resource',
      ],
    ]
    for (const [what, options, { suffixed = false, ...where }, url] of metadataUrls) {
      it(`the challenge names as resource_metadata ${what}`, async () => {
        const gate = gateWith(options)
        if (suffixed) gate.announceSuffixedMetadata()
        const { headers } = (await run(gate, { ...requestWith(undefined), ...where })) as PlainResponse
        expect(parseChallenge(headers['WWW-Authenticate'] as string).resource_metadata).to.equal(url)
      })
    }

    it('a challenge is well-formed for every header, realm, and list of scopes', async () => {
      const text = fc.string({
        unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
        minLength: 1,
      })
      const scope = fc.string({ unit: fc.constantFrom(...'!#[]~:/abc'), minLength: 1, maxLength: 5 })
      await fc.assert(
        fc.asyncProperty(text, fc.uniqueArray(scope), fc.string(), async (realm, scopes, authorization) => {
          const gate = gateWith({ realm, scopes, verifyToken: async () => undefined })
          const answer = (await run(gate, requestWith(authorization))) as PlainResponse
          expect(answer.status).to.equal(401)
          const parameters = parseChallenge(answer.headers['WWW-Authenticate'] as string)
          const { error_description: description, ...rest } = parameters
          expect(rest).to.deep.equal({
            realm,
            error: 'invalid_token',
            ...(scopes.length > 0 && { scope: scopes.join(' ') }),
            resource_metadata: METADATA,
          })
          expect(description).to.match(/^[A-Za-z ]+$/)
        }),
      )
    })
  })

  describe('refused tokens', () => {
    it('a token for another resource is rejected, compared as strings', async () => {
      const resource = 'https://mcp.example.com/mcp'
      for (const other of [
        'https://other.example.com',
        `${resource}/`,
        resource.toUpperCase(),
        '',
        new URL(`${resource}?x`),
      ]) {
        expect(await decisionOn({ valid: true, resource: other }, { resource })).to.deep.include({
          outcome: 'refused',
          reason: 'wrong_resource',
        })
      }
      for (const same of [resource, new URL(resource), null, undefined]) {
        expect(await decisionOn({ valid: true, resource: same }, { resource })).to.include({
          outcome: 'accepted',
        })
      }
    })
  })

  describe('accepted tokens', () => {
    it('a result with only valid: true is accepted, and null counts as absent', async () => {
      const nothing = {
        user: null,
        scopes: null,
        clientId: null,
        expiresAt: null,
        resource: null,
        extra: null,
      }
      for (const result of [{ valid: true }, { valid: true, ...nothing }]) {
        const auth = await authOf(result, { resource: 'https://mcp.example.com/mcp' })
        expect({ ...auth }).to.deep.equal({ clientId: '', scopes: [], extra: {} })
      }
    })

    it('the member valid of a result is read once', async () => {
      let asked = 0
      const result = {
        get valid() {
          asked++
          return asked === 1
        },
      }
      await authOf(result)
      expect(asked).to.equal(1)
    })
  })

  describe('scopes', () => {
    const implies = {
      'mcp:admin': ['mcp:write'],
      'mcp:write': ['mcp:read'],
      left: ['right'],
      right: ['left', 'mcp:read'],
      self: ['self'],
    }
    const table: readonly (readonly [granted: unknown, required: readonly string[], permitted: boolean])[] = [
      [undefined, [], true],
      [undefined, ['a'], false],
      [null, ['a'], false],
      [[], ['a'], false],
      ['', ['a'], false],
      [['a'], ['a'], true],
      ['a', ['a'], true],
      ['b a', ['a', 'b'], true],
      ['  b   a  ', ['a', 'b'], true],
      [['b', 'a', 'c'], ['a', 'b'], true],
      [['a'], ['a', 'b'], false],
      ['a,b', ['a', 'b'], false],
      [['a b'], ['a', 'b'], false],
      [['A'], ['a'], false],
      [['ab'], ['a'], false],
      [['a', 5, null], ['a'], true],
      [{ 0: 'a', length: 1 }, ['a'], false],
      [new Set(['a']), ['a'], false],
      [['mcp:write'], ['mcp:read'], true],
      [['mcp:admin'], ['mcp:read'], true],
      [['mcp:admin'], ['mcp:read', 'mcp:write', 'mcp:admin'], true],
      [['mcp:read'], ['mcp:write'], false],
      [['left'], ['right'], true],
      [['right'], ['left'], true],
      [['left'], ['mcp:read'], true],
      [['self'], ['self'], true],
      [['self'], ['mcp:read'], false],
      [['__proto__'], ['mcp:read'], false],
      [['constructor'], ['toString'], false],
    ]
    for (const [granted, required, permitted] of table) {
      it(`the granted scopes ${JSON.stringify(granted) ?? 'nothing'} ${permitted ? 'satisfy' : 'do not satisfy'} ${JSON.stringify(required)}`, async () => {
        const gate = gateWith({
          scopes: required,
          scopeImplies: implies,
          verifyToken: (async () => ({ valid: true, scopes: granted })) as never,
        })
        const answer = await run(gate)
        if (permitted) expect(answer).to.have.property('token', 'good')
        else expect(answer).to.include({ status: 403 })
      })
    }

    it('a 403 challenge names the scopes of the operation together with those of every request', () => {
      const gate = gateWith({ scopes: ['a'], scopeImplies: { c: ['b'] } })
      expect(gate.permits(['a'], ['b'])).to.equal(false)
      expect(gate.permits(['b'], ['b'])).to.equal(false)
      expect(gate.permits(['a', 'b'], ['b'])).to.equal(true)
      expect(gate.permits(['a', 'c'], ['b'])).to.equal(true)
    })
  })

  describe('503 responses', () => {
    it('a VerifierUnavailableError of another copy of the package gets a 503', async () => {
      const foreign = Object.assign(new Error(LEAK), {
        [Symbol.for('mcp-gatekit.VerifierUnavailableError')]: true,
        retryAfterSeconds: 9,
      })
      const answer = await run(gateWith({ verifyToken: async () => Promise.reject(foreign) }))
      expect(answer).to.nested.include({ status: 503, 'headers.Retry-After': '9' })
    })
  })

  describe('timers', () => {
    for (const [what, options, status] of [
      ['a verifier hangs', '{ verifyToken: () => never }', 503],
      ['onVerified hangs', '{ onVerified: () => never }', 500],
    ] as const) {
      it(`a response is sent although nothing else keeps the process alive: ${what}`, async () => {
        expect(await answersOf(options)).to.deep.equal([status, status, status])
      })
    }
  })

  describe('500 responses', () => {
    const failed = {
      status: 500,
      headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
      body: '{"error":"server_error"}',
    }
    const cause = new Error(LEAK)

    it('a context that fails gets a 500 without a call of the verifier, and an onVerified that is unavailable gets a 500', async () => {
      const verifyToken = () => expect.fail('asked the verifier')
      const gate = gateWith({ verifyToken }, async () => Promise.reject(cause))
      expect(await gate.authenticate(requestWith())).to.deep.equal({ outcome: 'failed', cause })
      const onVerified = () => {
        throw new VerifierUnavailableError(LEAK)
      }
      expect(await run(gateWith({ onVerified }))).to.deep.equal(failed)
    })

    it('a context or onVerified that exceeds the timeout gets a 500', async () => {
      const never = () => new Promise<never>(() => undefined)
      const late = [
        gateWith({ verifyTimeoutMs: 20 }, never),
        gateWith({ verifyTimeoutMs: 20, verifyToken: async () => ({ valid: true }), onVerified: never }),
      ]
      for (const gate of late) expect(await run(gate)).to.deep.equal(failed)
    })
  })

  describe('calls of the verifier', () => {
    it('the input of a verifier can be passed on as a copy', async () => {
      const copies: object[] = []
      const gate = gateWith({
        verifyToken: async (input) => {
          copies.push({ ...input })
          return { valid: true }
        },
        onVerified: (input) => {
          copies.push({ ...input })
        },
      })
      expect(await run(gate)).to.have.property('token', 'good')
      expect(copies[0]).to.have.all.keys('request', 'bearerToken', 'context')
      expect(copies[1]).to.have.all.keys('request', 'context', 'user', 'scopes')
      for (const copy of copies) expect(copy).to.have.property('request').that.is.instanceOf(Request)
    })

    it('the result of the verifier for a request without a token is neither awaited nor used', async () => {
      const verifiers: (() => unknown)[] = [
        () => new Promise(() => undefined),
        () => Promise.reject(new Error(LEAK)),
        () => Promise.reject(new VerifierUnavailableError(LEAK)),
        () => {
          throw new Error(LEAK)
        },
        () => thenable(() => 'no function'),
        () =>
          thenable(() => {
            throw new Error(LEAK)
          }),
      ]
      for (const verifyToken of verifiers) {
        for (const make of [emptyContext, async (request: GateRequest) => emptyContext(request)]) {
          const gate = gateWith({ verifyToken: verifyToken as never }, make as ContextFactory)
          expect(await run(gate, requestWith(undefined))).to.include({ status: 401 })
        }
      }
    })

    it('the context of a request without a token is not awaited', async () => {
      const gate = gateWith({}, () => new Promise(() => undefined))
      expect(await run(gate, requestWith(undefined))).to.include({ status: 401 })
    })
  })

  describe('onVerified', () => {
    it('onVerified cannot grant scopes by changing the list', async () => {
      const onVerified = ({ scopes }: { scopes: readonly string[] }) => {
        ;(scopes as string[]).push('mcp:write')
      }
      const verifyToken = async () => ({ valid: true, scopes: ['mcp:read'] })
      expect(await run(gateWith({ scopes: ['mcp:write'], verifyToken, onVerified }))).to.include({
        status: 403,
      })
    })

    it('onVerified is not called for a token that is not accepted', async () => {
      let calls = 0
      const onVerified = () => {
        calls++
      }
      for (const result of [
        undefined,
        { valid: false },
        { valid: true, expiresAt: 1 },
        { valid: true, resource: 'https://x' },
      ]) {
        const verifyToken = (async () => result) as never
        await gateWith({ onVerified, verifyToken, resource: 'https://mcp.example.com' }).authenticate(
          requestWith(),
        )
      }
      await gateWith({ onVerified }).authenticate(requestWith(undefined))
      expect(calls).to.equal(0)
    })
  })
})
