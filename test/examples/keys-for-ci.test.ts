import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { parseChallenge } from '../support/challenge.ts'
import { type RunningExample, startExample } from '../support/examples/run.ts'
import { freePort } from '../support/free-port.ts'
import { listen } from '../support/listen.ts'
import { bearer, modern, send, type WireAnswer } from '../support/mcp/wire.ts'
import { createSigningKey, type SigningKey, signToken } from '../support/tokens.ts'

describe('the example of keys for CI', function () {
  this.timeout(60_000)
  const key = `ci_${randomBytes(32).toString('hex')}`
  let port: number
  let resource: string
  let people: string
  let jobs: string
  let signing: SigningKey
  let example: RunningExample

  /** Starts an issuer of JWTs. */
  async function startIssuer(): Promise<string> {
    const { origin } = await listen((req, res) => {
      const known: Record<string, unknown> = {
        '/.well-known/openid-configuration': { issuer: origin, jwks_uri: `${origin}/jwks` },
        '/jwks': { keys: [signing.jwk] },
      }
      res.statusCode = known[req.url ?? ''] === undefined ? 404 : 200
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify(known[req.url ?? ''] ?? {}))
    })
    return origin
  }

  async function start(env: Readonly<Record<string, string>> = {}): Promise<RunningExample> {
    port = await freePort()
    resource = `http://127.0.0.1:${port}/mcp`
    return startExample('keys-for-ci', {
      ISSUER: people,
      RESOURCE: resource,
      CI_KEY_SHA256: createHash('sha256').update(key).digest('hex'),
      CI_KEY_EXPIRES: '2999-01-31',
      CI_ISSUER: jobs,
      CI_REPOSITORY: 'acme/shop',
      PORT: String(port),
      ...env,
    })
  }

  const whoami = (token?: string): Promise<WireAnswer> =>
    send(port, modern('tools/call', { name: 'whoami' }, token === undefined ? {} : bearer(token)))
  const said = ({ message }: WireAnswer): unknown => JSON.parse(message.result.content[0].text)
  const jobToken = (claims: object = {}): Promise<string> =>
    signToken(signing, {
      iss: jobs,
      aud: resource,
      sub: 'repo:acme/shop:ref:refs/heads/main',
      repository: 'acme/shop',
      ...claims,
    })

  before(async () => {
    signing = await createSigningKey('RS256', 'k1')
    ;[people, jobs] = [await startIssuer(), await startIssuer()]
    example = await start()
    await example.said(/Serving/)
  })
  after(async () => {
    example?.process.kill()
    await example?.ended
  })

  it('a job with the key, a job with a signed token, and a person are accepted', async () => {
    expect(said(await whoami(key))).to.deep.equal({ user: 'ci-key', client: 'ci-key', scopes: ['mcp:read'] })
    expect(said(await whoami(await jobToken()))).to.deep.equal({
      user: 'repo:acme/shop:ref:refs/heads/main',
      client: 'ci-job',
      scopes: ['mcp:read'],
    })
    const claims = { iss: people, aud: resource, sub: 'ada', client_id: 'inspector', scope: 'mcp:read' }
    expect(said(await whoami(await signToken(signing, claims)))).to.deep.equal({
      user: 'ada',
      client: 'inspector',
      scopes: ['mcp:read'],
    })
  })

  it('a wrong key, and the token of a job for another repository or server, are rejected', async () => {
    const rejected = [
      `ci_${randomBytes(32).toString('hex')}`,
      key.slice(0, -1),
      `${key}0`,
      await jobToken({ repository: 'mallory/shop' }),
      await jobToken({ repository: undefined }),
      await jobToken({ aud: 'https://other.example/mcp' }),
    ]
    for (const token of rejected) expect((await whoami(token)).status, token.slice(0, 12)).to.equal(401)
  })

  it('a request without a token gets the challenge for people', async () => {
    const refused = await whoami()
    expect(refused.status).to.equal(401)
    const { resource_metadata: url } = parseChallenge(refused.headers.get('www-authenticate') ?? '')
    const document = await send(port, { method: 'GET', path: new URL(url ?? '').pathname })
    expect(document.message).to.deep.include({ resource, authorization_servers: [people] })
  })

  it('a key whose date has passed is rejected as expired', async () => {
    const kept = { port, resource }
    const late = await start({ CI_KEY_EXPIRES: '2020-01-31' })
    try {
      await late.said(/Serving/)
      const { status, headers } = await whoami(key)
      expect(status).to.equal(401)
      expect(parseChallenge(headers.get('www-authenticate') ?? '').error_description).to.equal(
        'The access token has expired',
      )
    } finally {
      late.process.kill()
      await late.ended
      ;({ port, resource } = kept)
    }
  })

  it('the example does not start with a hash that is not a SHA-256', async () => {
    const outcome = await (await start({ CI_KEY_SHA256: 'abc' })).ended
    expect(outcome.exitCode).to.equal(1)
    expect(outcome.stderr).to.contain('CI_KEY_SHA256 must be 64 hex digits')
  })
})
