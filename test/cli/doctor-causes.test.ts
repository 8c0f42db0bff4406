import { once } from 'node:events'
import { request } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { expect } from 'chai'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import { introspectionVerifier, jwtVerifier } from '../../src/index.ts'
import { createTestIssuer, type TestTokenOptions } from '../../src/testing/test-issuer.ts'
import { selfSigned } from '../support/certificates.ts'
import {
  type DoctorTarget,
  failuresOf,
  findingOf,
  look,
  type Outgoing,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { members } from '../support/cli/faults.ts'
import { type ExaminedServer, Findings, itReports } from '../support/cli/recorded.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { freePorts } from '../support/free-port.ts'
import { listen } from '../support/listen.ts'
import { nginxMissing, startNginxProxy } from '../support/nginx.ts'
import { skipIf } from '../support/skip.ts'

/** Issues a token that is wrong for a server in the given respects, with the key that the server accepts. */
const issue =
  (change: (target: DoctorTarget) => TestTokenOptions) =>
  (target: DoctorTarget): Promise<string> =>
    target.issueToken({ scopes: ['mcp:read', 'mcp:write'], ...change(target) })

/** Accepts every token of the test issuer, whatever its claims, and no forged one. */
function acceptsIssued({ bearerToken = '' }: { readonly bearerToken?: string | undefined }) {
  const payload = Buffer.from(bearerToken.split('.')[1] ?? '', 'base64url').toString()
  return payload.includes('"sub":"test-user"')
    ? { valid: true, scopes: ['mcp:read', 'mcp:write'] }
    : undefined
}

/** Describes every 401 in the same way. */
const givesOneReason =
  (description: string) =>
  (answer: Outgoing): void => {
    if (answer.status !== 401) return
    const challenge = String(answer.headers['www-authenticate'])
    answer.headers['www-authenticate'] = challenge.replace(
      /error_description="[^"]*"/,
      `error_description="${description}"`,
    )
    answer.body = ''
  }

const CAUSES: Readonly<Record<string, ExaminedServer>> = {
  'a token with another audience': { token: issue(() => ({ audience: 'https://a.example' })) },
  'a token that is not valid yet, with another audience and another issuer': {
    token: issue(() => {
      const nbf = Math.floor(Date.now() / 1000) + 3_600
      return { audience: 'https://a.example', claims: { nbf, iss: 'https://other.example' } }
    }),
  },
  'an opaque token for a server that expects a JWT': {
    token: () => 'gho_16C7e42F292c6912E7710c838347Ae178B4a',
  },
  'a token that was cut while it was copied': {
    token: async (target) => (await target.issueToken({})).slice(0, -20),
  },
  'a token without a required scope': { oauth: { scopes: ['mcp:admin'] } },
  'a server whose metadata names 127.0.0.1, at the URL with localhost': {
    at: ({ url }) => new URL(url.href.replace('127.0.0.1', 'localhost')),
  },
  'a token that is rejected although it matches the metadata, with the reason only in the challenge': {
    oauth: { verifyToken: () => undefined },
    alter: (answer) => {
      if (answer.status === 401) answer.body = ''
    },
  },
  'a token of which typ is the only possible cause': {
    oauth: { verifyToken: () => undefined },
    issuer: members({ jwks_uri: undefined }),
    token: async (target) => {
      const [, ...rest] = (await target.issueToken({ scopes: ['mcp:read'] })).split('.')
      return [Buffer.from('{"alg":"ES256","typ":"JWT"}').toString('base64url'), ...rest].join('.')
    },
  },
  'a server that accepts a token with another audience': {
    oauth: { verifyToken: acceptsIssued },
    token: issue(() => ({ audience: 'https://a.example' })),
  },
  'a server that accepts an expired token': {
    oauth: { verifyToken: acceptsIssued },
    token: issue(() => ({ expiresIn: -7_200 })),
  },
  'a server that gives the same reason for a missing and an invalid token': {
    alter: givesOneReason('Authentication required'),
    token: issue(() => ({ audience: 'https://a.example' })),
  },
}

const causes = new Findings('causes')

describe('doctor names the cause and the fix', () => {
  itReports('causes', CAUSES, undefined, () => ({}))

  it('for an authorization server that is down, and skips what depends on it', async () => {
    const [port] = await freePorts(1)
    const issuer = `http://127.0.0.1:${port}`
    const verifyToken = jwtVerifier({ issuer, audience: 'https://mcp.example.com/mcp' })
    const target = await startTarget({ oauth: { issuer, verifyToken } })
    const given = await createTestIssuer({ issuer, audience: target.url.href }).issueToken()
    const report = await look(target.url, { token: given })
    expectCauses('an authorization server that is down', report, given)
    for (const [id, reason] of Object.entries({
      'issuer.pkce': /see issuer\.metadata/,
      'token.forged': /^503, temporarily_unavailable: ".*": .*see issuer\.metadata$/,
      'token.accepted': /^503, temporarily_unavailable/,
      'protocol.revisions': /cannot verify the token: see token\.accepted/,
      'issuer.cors': /see issuer\.metadata/,
    })) {
      expect(findingOf(report, id)?.status, id).to.equal('skip')
      expect(findingOf(report, id)?.seen, id).to.match(reason)
    }
  })

  it('and says of no part that it has no difference if an accepted token differs in it', async () => {
    const { url, issuer } = await startTarget({ oauth: { verifyToken: acceptsIssued } })
    const token = await createTestIssuer({ issuer, audience: url.href }).issueToken({ claims: { jti: 5 } })
    const { seen } = findingOf(await look(url, { token }), 'token.claims') ?? {}
    expect(seen).to.equal('no difference found in aud, iss, exp, iat, sub, client_id, typ, alg')
  })

  it('for an authorization server that does not respond in time', async () => {
    const silent = await listen(() => undefined)
    const target = await startTarget({ oauth: { issuer: silent.origin } })
    const report = await look(target.url, { timeoutMs: 300 })
    expectCauses('an authorization server that does not respond in time', report)
  })

  it('for an authorization server whose certificate is not trusted', async () => {
    const tls = createTlsServer(selfSigned(), (_req, res) => res.end()).listen(0, '127.0.0.1')
    await once(tls, 'listening')
    try {
      const issuer = `https://127.0.0.1:${(tls.address() as AddressInfo).port}`
      const report = await look((await startTarget({ oauth: { issuer } })).url)
      expectCauses('an authorization server whose certificate is not trusted', report)
    } finally {
      tls.close()
      tls.closeAllConnections()
    }
  })

  it('for an introspection endpoint that is down', async () => {
    const [port] = await freePorts(1)
    const endpoint = `http://127.0.0.1:${port}/introspect`
    const target = await startTarget({
      oauth: {
        verifyToken: introspectionVerifier({
          endpoint,
          clientId: 'a',
          clientSecret: 'hunter2hunter2',
          audience: false,
        }),
      },
    })
    const report = await look(target.url, { token: 'an-opaque-token' })
    expectCauses('an introspection endpoint that is down', report)
  })

  for (const [description, status] of [
    ['Authentication required', 'skip'],
    ['Missing or expired access token', 'skip'],
    ['Invalid token, or no token', 'skip'],
    ['Missing Authorization header', 'fail'],
    ['No token provided', 'fail'],
  ] as const) {
    it(`for the reason "${description}" with and without a token, or not: ${status}`, async () => {
      const target = await startTarget({ alter: givesOneReason(description) })
      expect(findingOf(await look(target.url), 'edge.proxy')?.status).to.equal(status)
      const accepted = await look(target.url, { token: target.token })
      expect(findingOf(accepted, 'edge.proxy')?.status).to.equal('ok')
    })
  }

  it('for nginx that removes the Authorization header', async function () {
    skipIf(this, nginxMissing())
    const target = await startTarget({ oauth: { resource: undefined } })
    const nginx = await startNginxProxy(target.url.origin, 'proxy_set_header Authorization "";')
    try {
      const url = new URL('/mcp', nginx.origin)
      const token = await target.issueToken({ audience: url.href, scopes: ['mcp:read'] })
      const report = await look(url, { token })
      expectNoSecret(report, [token, ...token.split('.').slice(1)])
      expect(failuresOf(report)).to.have.members(['edge.proxy', 'token.accepted'])
      expect(findingOf(report, 'edge.proxy')?.seen).to.match(/\(from nginx\/[\d.]+\S*\)/)
      expect(findingOf(report, 'edge.proxy')?.hint).to.match(/header\. nginx: remove proxy_set_header/)
    } finally {
      await nginx.stop()
    }
  })

  it('for a proxy that removes the Authorization header, with and without a token', async () => {
    const target = await startTarget({ oauth: { resource: undefined } })
    const proxy = await listen((req, res) => {
      const { authorization: _, ...headers } = req.headers
      const outgoing = request({
        port: target.url.port,
        method: req.method,
        path: req.url,
        headers,
        agent: false,
      })
      const forward = async () => {
        const responded = once(outgoing, 'response')
        await pipeline(req, outgoing)
        const [response] = await responded
        res.writeHead(response.statusCode, { ...response.headers, via: '1.1 front (Apache/2.4)' })
        await pipeline(response, res)
      }
      forward().catch(() => res.destroy())
    })
    const url = new URL('/mcp', proxy.origin)
    const token = await target.issueToken({ audience: url.href, scopes: ['mcp:read'] })
    expectCauses('a proxy that removes the Authorization header', await look(url, { token }), token)
    expectCauses('a proxy that removes the Authorization header, without a token', await look(url))
  })
})

/** Expects the recorded findings, and that the token is not in the report. */
function expectCauses(server: string, report: DoctorReport, token?: string): void {
  causes.expect(server, report)
  if (token !== undefined) expectNoSecret(report, [token, ...token.split('.').slice(1)])
}
