import { randomBytes } from 'node:crypto'
import type { Examination } from './examination.ts'
import { InconclusiveError } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { challengedScope } from './protection.ts'

/** The redirect URI of the client that `doctor` registers. It is never opened. */
export const REDIRECT_URI = 'http://127.0.0.1:33418/callback'
/** The redirect URI of a stranger. The name can never be registered (RFC 2606 §2). */
export const FOREIGN_URI = 'https://mcp-gatekit-doctor.invalid/callback'

const MAX_REDIRECTS = 5

/**
 * The end of an authorization request in a browser without a session.
 *
 * - `client`: a redirect to the redirect URI of the request.
 * - `upstream`: an authorization request to another server, which signs the user in.
 * - `elsewhere`: a redirect to another server, or too many redirects.
 * - `page`: a page, which may ask the user to sign in, or state an error.
 * - `refused`: a response with an error status.
 */
export type SignInStart =
  | { readonly kind: 'client' | 'upstream' | 'elsewhere'; readonly url: URL }
  | { readonly kind: 'page'; readonly look: string }
  | { readonly kind: 'refused'; readonly seen: string }

/** Returns an authorization request of a client with PKCE. `null` removes a parameter. */
export async function authorizationRequest(
  examination: Examination,
  clientId: string,
  changes: Readonly<Record<string, string | null>> = {},
): Promise<URLSearchParams> {
  const random = (): string => randomBytes(32).toString('base64url')
  const parameters: Record<string, string | null | undefined> = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: REDIRECT_URI,
    code_challenge: random(),
    code_challenge_method: 'S256',
    state: random(),
    resource: examination.url.href,
    scope: await challengedScope(examination),
    ...changes,
  }
  const request = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) if (value != null) request.set(name, value)
  return request
}

/**
 * Opens an authorization request as a browser without a session would: keeps cookies, and follows redirects on the host of
 * the endpoint. Completes no sign-in, and sends nothing to other hosts.
 * @throws {NoResponseError} or, after a 429, {InconclusiveError}
 */
export async function startSignIn(
  examination: Examination,
  endpoint: URL,
  request: URLSearchParams,
): Promise<SignInStart> {
  const redirectUri = new URL(String(request.get('redirect_uri')))
  const cookies = new Map<string, string>()
  let at = new URL(endpoint)
  for (const [name, value] of request) at.searchParams.set(name, value)
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const response = await examination.fetch('GET', at, {
      headers: { accept: 'text/html,*/*;q=0.8', ...(cookie !== '' && { cookie }) },
    })
    if (response.status === 429)
      throw new InconclusiveError('the authorization server responded with 429: run doctor again later')
    const location = response.redirect === undefined ? undefined : response.header('location')
    if (location === undefined || !URL.canParse(location, at.href)) return pageOf(response, at, hop)
    for (const [name, value] of cookiesOf(response)) cookies.set(name, value)
    at = new URL(location, at)
    if (at.origin === redirectUri.origin && at.pathname === redirectUri.pathname) {
      examination.secrets.add(at.searchParams.get('code') ?? undefined)
      return { kind: 'client', url: at }
    }
    if (at.origin !== endpoint.origin) {
      const isRequest = at.searchParams.has('client_id')
      return { kind: isRequest ? 'upstream' : 'elsewhere', url: at }
    }
  }
  return { kind: 'elsewhere', url: at }
}

/** Returns the cookies of a response, whose lines are joined by commas. A date in an attribute contains a comma, too. */
function cookiesOf(response: HttpExchange): readonly (readonly [name: string, value: string])[] {
  const lines = (response.header('set-cookie') ?? '').split(/,\s*(?=[^\s;,=]+=)/)
  return lines.flatMap((line) => {
    const [, name, value] = /^([^\s;,=]+)=([^;]*)/.exec(line) ?? []
    return name === undefined || value === undefined || value === '' ? [] : [[name, value] as const]
  })
}

/** Describes a page by what two pages of the same kind have in common: the number of redirects, the path, and the title. */
function pageOf(response: HttpExchange, { pathname }: URL, hop: number): SignInStart {
  if (!response.succeeded) return { kind: 'refused', seen: response.redirect ?? response.summary }
  const { body } = response
  // IDs of sign-ins are long.
  const path = pathname.split('/').map((part) => (part.length < 16 ? part : '*'))
  const [title] = body.slice(body.indexOf('<title')).split('</title', 1)
  return { kind: 'page', look: JSON.stringify([hop, path, body.includes('<title') ? title : '']) }
}

/** How certain it is that an authorization server accepts a request. */
export type Acceptance = 'no' | 'maybe' | 'yes'

/**
 * Compares a faulty request with a correct one. `maybe` means that both lead to the same page: the server may refuse the
 * request after the sign-in.
 */
export function acceptanceOf(start: SignInStart, correct: SignInStart | undefined): Acceptance {
  if (start.kind === 'upstream') return 'yes'
  if (start.kind === 'client') return start.url.searchParams.has('code') ? 'yes' : 'no'
  if (start.kind === 'page') return correct?.kind === 'page' && correct.look === start.look ? 'maybe' : 'no'
  if (start.kind === 'refused' || correct?.kind !== 'elsewhere') return 'no'
  const same = (['origin', 'pathname'] as const).every((part) => start.url[part] === correct.url[part])
  return same ? 'maybe' : 'no'
}
