import { randomBytes, randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { CheckReport, DoctorReport } from '../../../cli/doctor/doctor.ts'
import type { ExaminationOptions } from '../../../cli/doctor/examination.ts'
import { listen } from '../listen.ts'
import { findingOf, look, startTarget } from './doctor-target.ts'

/** The rules of an authorization server that sends users to an identity provider. Each one can be replaced by a flaw. */
export interface SignInRules {
  /** Decides which redirect URIs can be registered. */
  readonly registers: (redirectUri: string) => boolean
  readonly knowsClient: (isRegistered: boolean) => boolean
  readonly allowsRedirect: (redirectUri: string, registered: readonly string[]) => boolean
  readonly allowsPkce: (challenge: string | null, method: string | null) => boolean
  /** Returns the response to an authorization request that is allowed: a URL, or a page. */
  readonly answer: (request: URLSearchParams, provider: string) => string
  /** Returns the response to one that is refused: a URL, or `undefined` for a page with the status 400. */
  readonly refusal: (request: URLSearchParams) => string | undefined
  /** The status of the page for requests that are refused. */
  readonly refusalStatus: number
  /** Returns the status of a use of a code, by the number of earlier uses. A status of 200 is a token. */
  readonly exchange: (usesBefore: number) => number
  /** Changes the metadata in place. */
  readonly metadata: (document: Record<string, unknown>) => unknown
}

/** The code of every sign-in. */
export const CODE = 'secret-code'

/** Returns to the redirect URI with a code, as a user who has opened the printed URL. */
export async function visitWithCode(text: string): Promise<void> {
  const { searchParams } = new URL(/https?:\/\/\S+/.exec(text)?.[0] ?? '')
  const callback = new URL(String(searchParams.get('redirect_uri')))
  callback.searchParams.set('code', CODE)
  callback.searchParams.set('state', String(searchParams.get('state')))
  await (await fetch(callback)).text()
}

/** Returns an authorization request to the identity provider. */
export function upstreamRequest(
  provider: string,
  changes: Readonly<Record<string, string | null>> = {},
): string {
  const url = new URL('/authorize', provider)
  const parameters = {
    response_type: 'code',
    client_id: 'facade',
    state: randomBytes(32).toString('base64url'),
    code_challenge: randomBytes(32).toString('base64url'),
    code_challenge_method: 'S256',
    ...changes,
  }
  for (const [name, value] of Object.entries(parameters))
    if (value !== null) url.searchParams.set(name, value)
  return url.href
}

const CORRECT: SignInRules = {
  registers: (redirectUri) => /^https:|^http:\/\/(127\.0\.0\.1|localhost):/.test(redirectUri),
  knowsClient: (isRegistered) => isRegistered,
  allowsRedirect: (redirectUri, registered) => registered.includes(redirectUri),
  allowsPkce: (challenge, method) => challenge !== null && method === 'S256',
  answer: (_request, provider) => upstreamRequest(provider),
  refusal: () => undefined,
  refusalStatus: 400,
  exchange: (usesBefore) => (usesBefore === 0 ? 200 : 400),
  metadata: () => undefined,
}

/** Starts an MCP server whose authorization server has these flaws, and examines it with `--register`. */
export async function reportOfSignIn(
  flaws: Partial<SignInRules>,
  changes: Partial<ExaminationOptions> = { register: true },
): Promise<DoctorReport> {
  const rules = { ...CORRECT, ...flaws }
  const clients = new Map<string, readonly string[]>()
  const visits: string[] = []
  let uses = 0
  const provider = await listen((req, res) => {
    visits.push(String(req.url))
    res.end()
  })
  const { origin } = await listen(async (req, res) => {
    const url = new URL(String(req.url), origin)
    const json = (status: number, value: unknown): unknown =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (url.pathname === '/.well-known/oauth-authorization-server') {
      const document = {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      }
      rules.metadata(document)
      return json(200, document)
    }
    if (url.pathname === '/register' && req.method === 'POST') {
      const body = (await buffer(req)).toString()
      const uris: readonly string[] = body.startsWith('{') ? JSON.parse(body).redirect_uris : ['']
      if (!uris.every(rules.registers)) return json(400, { error: 'invalid_redirect_uri' })
      const id = randomUUID()
      clients.set(id, uris)
      return json(201, { client_id: id, redirect_uris: uris })
    }
    if (url.pathname === '/token') {
      const isCode = (await buffer(req)).toString().includes(`code=${CODE}`)
      if (!isCode) return json(401, { error: 'invalid_client' })
      return json(rules.exchange(uses++), {
        error: 'invalid_grant',
        access_token: 'opaque',
        token_type: 'Bearer',
      })
    }
    if (url.pathname !== '/authorize') return json(404, {})
    // The first request sets a cookie, which the second one needs, as in a real sign-in.
    if (!String(req.headers.cookie).includes('seen=yes')) {
      const cookies = ['old=; Expires=Thu, 01 Jan 1970 00:00:00 GMT', 'seen=yes; Path=/; HttpOnly']
      return res.writeHead(303, { location: url.href, 'set-cookie': cookies }).end()
    }
    const request = url.searchParams
    const registered = clients.get(String(request.get('client_id')))
    const isAllowed =
      rules.knowsClient(registered !== undefined) &&
      rules.allowsRedirect(String(request.get('redirect_uri')), registered ?? []) &&
      rules.allowsPkce(request.get('code_challenge'), request.get('code_challenge_method'))
    const answer = isAllowed ? rules.answer(request, provider.origin) : rules.refusal(request)
    if (answer === undefined) return res.writeHead(rules.refusalStatus).end('<title>Error</title>')
    if (/^(http|\/)/.test(answer)) return res.writeHead(302, { location: answer }).end()
    return res.writeHead(200, { 'content-type': 'text/html' }).end(answer)
  })
  const target = await startTarget({ oauth: { authorizationServers: [origin] } })
  const report = await look(target.url, changes)
  // Doctor reads the request to the identity provider, and does not send it.
  if (visits.length > 0) throw new Error(`doctor opened ${visits.join(' and ')} at the identity provider`)
  return report
}

/** Examines such a server. Resolves with a function that returns the finding of a check. */
export async function examineSignIn(...args: Parameters<typeof reportOfSignIn>) {
  const report = await reportOfSignIn(...args)
  return (id: string): Partial<CheckReport> => findingOf(report, id) ?? {}
}
