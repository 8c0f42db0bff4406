import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { listen, stop } from '../../../examples/listen.ts'
import { formOf } from '../upstream/exchange-server.ts'

/** A stand-in for GitHub: OAuth with PKCE, without OpenID, and the user API. */
export interface Github {
  readonly baseUrl: string
  readonly clientId: string
  readonly clientSecret: string
  close(): Promise<void>
}

const AUTHORIZE = [
  'client_id',
  'redirect_uri',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
  'response_type',
  'prompt',
]
const TOKEN = ['client_id', 'client_secret', 'code', 'redirect_uri', 'code_verifier', 'grant_type']

/**
 * Starts a stand-in that checks every parameter and header as GitHub documents them
 * (https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps). It rejects parameters that GitHub does not
 * document. The user is `ada`, whose profile shows an address that is not verified.
 */
export async function startGithub(callback: string): Promise<Github> {
  const clientId = 'Iv1.0123456789abcdef'
  const clientSecret = randomBytes(20).toString('hex')
  const codes = new Map<string, string>()
  const token = `gho_${randomBytes(18).toString('hex')}`
  const http = createServer(async (req, res) => {
    const url = new URL(String(req.url), 'http://localhost')
    const json = (status: number, body: unknown): void => {
      res.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
    }
    if (url.pathname === '/login/oauth/authorize' && req.method === 'GET') {
      const query = url.searchParams
      const isKnown = [...query.keys()].every((name) => AUTHORIZE.includes(name))
      const isRight = query.get('client_id') === clientId && query.get('redirect_uri') === callback
      if (!isKnown || !isRight || query.get('code_challenge_method') !== 'S256') return json(404, {})
      const code = randomBytes(10).toString('hex')
      codes.set(code, String(query.get('code_challenge')))
      const target = new URL(callback)
      target.search = new URLSearchParams({ code, state: String(query.get('state')) }).toString()
      res.writeHead(302, { location: target.href }).end()
      return
    }
    if (url.pathname === '/login/oauth/access_token' && req.method === 'POST') {
      const form = await formOf(req)
      if (req.headers.accept !== 'application/json') return json(406, {})
      const challenge = codes.get(String(form.get('code')))
      codes.delete(String(form.get('code')))
      // GitHub responds with 200 to errors, too.
      if (form.get('client_id') !== clientId || form.get('client_secret') !== clientSecret)
        return json(200, { error: 'incorrect_client_credentials', error_description: 'wrong' })
      const hash = createHash('sha256')
        .update(String(form.get('code_verifier')))
        .digest('base64url')
      const isKnown = [...form.keys()].every((name) => TOKEN.includes(name))
      if (challenge !== hash || !isKnown || form.get('redirect_uri') !== callback)
        return json(200, {
          error: 'bad_verification_code',
          error_description: 'The code is incorrect or expired.',
        })
      return json(200, { access_token: token, scope: 'read:user,user:email', token_type: 'bearer' })
    }
    const isAuthorized =
      req.headers.authorization === `Bearer ${token}` && req.headers['user-agent'] !== undefined
    if (!isAuthorized) return json(401, { message: 'Bad credentials' })
    if (url.pathname === '/api/v3/user')
      return json(200, { id: 583_231, login: 'ada', name: 'Ada', email: 'unverified@example.com' })
    if (url.pathname === '/api/v3/user/emails')
      return json(200, [
        { email: 'old@example.com', primary: false, verified: true, visibility: null },
        { email: 'ada@example.com', primary: true, verified: true, visibility: 'private' },
      ])
    return json(404, { message: 'Not Found' })
  })
  const port = await listen(http, 0)
  return { baseUrl: `http://127.0.0.1:${port}`, clientId, clientSecret, close: () => stop(http) }
}
