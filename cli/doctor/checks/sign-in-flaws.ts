import { randomBytes, randomUUID } from 'node:crypto'
import querystring from 'node:querystring'
import { type CheckFunction, type CheckFunctions, type Examination, observation } from '../examination.ts'
import { type Finding, fail, findingsOfEach, ifPossible, ok, onlyIf, warn } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { quote, quoteAll } from '../quote.ts'
import { textsOf } from '../values.ts'
import { type KnownServer, ONLY_WITH_REGISTER, ofEach, registerClient } from './issuers.ts'
import { challengedScope } from './protection.ts'

/** The redirect URI of the client that `doctor` registers. It is never opened. */
const REDIRECT_URI = 'http://127.0.0.1:33418/callback'
/** The redirect URI of a stranger. The name can never be registered (RFC 2606 §2). */
const FOREIGN_URI = 'https://mcp-gatekit-doctor.invalid/callback'

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
type SignInStart =
  | { readonly kind: 'client' | 'upstream' | 'elsewhere'; readonly url: URL }
  | { readonly kind: 'page'; readonly look: string }
  | { readonly kind: 'refused'; readonly seen: string }

/**
 * Opens an authorization request with PKCE as a browser without a session would: keeps cookies, and follows redirects on the
 * host of the endpoint. Completes no sign-in, and sends nothing to other hosts.
 * @param changes parameters to replace, or `null` to remove one
 * @throws {NoResponseError} or, after a 429 and if the endpoint is not safe to fetch, {InconclusiveError}
 */
async function open(
  { document }: KnownServer,
  examination: Examination,
  clientId: string,
  changes: Readonly<Record<string, string | null>> = {},
): Promise<SignInStart> {
  const endpoint = examination.safeUrl(document.authorization_endpoint)
  onlyIf(endpoint !== undefined, 'see issuer.endpoints')
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
  const redirectUri = new URL(String(parameters.redirect_uri))
  const cookies = new Map<string, string>()
  let at = new URL(endpoint)
  for (const [name, value] of Object.entries(parameters)) if (value != null) at.searchParams.set(name, value)
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const response = await examination.fetch('GET', at, {
      headers: { accept: 'text/html,*/*;q=0.8', ...(cookie !== '' && { cookie }) },
    })
    onlyIf(response.status !== 429, 'the authorization server responded with 429: run doctor again later')
    const location = response.redirect === undefined ? undefined : response.header('location')
    if (location === undefined || !URL.canParse(location, at.href)) return pageOf(response, at, hop)
    for (const [name, value] of response.cookies) cookies.set(name, value)
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
type Acceptance = 'no' | 'maybe' | 'yes'

/**
 * Compares a faulty request with a correct one. `maybe` means that both lead to the same page: the server may refuse the
 * request after the sign-in.
 */
function acceptanceOf(start: SignInStart, correct: SignInStart | undefined): Acceptance {
  if (start.kind === 'upstream') return 'yes'
  if (start.kind === 'client') return start.url.searchParams.has('code') ? 'yes' : 'no'
  if (start.kind === 'page') return correct?.kind === 'page' && correct.look === start.look ? 'maybe' : 'no'
  if (start.kind === 'refused' || correct?.kind !== 'elsewhere') return 'no'
  const same = (['origin', 'pathname'] as const).every((part) => start.url[part] === correct.url[part])
  return same ? 'maybe' : 'no'
}

/** The number of characters in which two random states of 64 bits and more always differ. */
const MIN_DIFFERENCES = 10

/** A part of this length or more after the last dot is taken for a signature. */
const MIN_SIGNATURE = 20

/**
 * Returns the first of some texts that anybody can read in a `state`, as it is or in Base64, or `undefined`. A state with a
 * signature is not readable in this sense, because it cannot be changed.
 */
export function readableContext(state: string, texts: readonly string[]): string | undefined {
  const dot = state.lastIndexOf('.')
  if (dot >= 0 && state.length - dot > MIN_SIGNATURE) return undefined
  const plain = [state, Buffer.from(state, 'base64').toString('utf8')]
  const forms = [...plain, ...plain.map(querystring.unescape)]
  return texts.find((text) => forms.some((form) => form.includes(text)))
}

/** Returns `true` if two states differ in as many characters as random ones do. A counter or a time does not. */
export function statesDiffer(one: string, other: string): boolean {
  const length = Math.max(one.length, other.length)
  let differences = 0
  for (let index = 0; index < length; index++) if (one[index] !== other[index]) differences++
  return differences >= MIN_DIFFERENCES
}

/** Redirect URIs that an authorization server must not register for anybody, with the reason. */
const HARMFUL_URIS: readonly string[] = [
  'javascript:alert(1)',
  'data:text/html,mcp-gatekit-doctor',
  'http://mcp-gatekit-doctor.invalid/callback',
]

/** Redirect URIs that differ from the registered one: another host, a longer host, and a longer path. */
const CHANGED_URIS: readonly string[] = [
  FOREIGN_URI,
  REDIRECT_URI.replace('127.0.0.1', '127.0.0.1.mcp-gatekit-doctor.invalid'),
  `${REDIRECT_URI}/other`,
]

/** The sign-in that a client without a registration starts. */
const startOfStranger = observation(async (server: KnownServer, examination: Examination) => {
  const changes = { redirect_uri: FOREIGN_URI }
  return await open(server, examination, `mcp-gatekit-doctor-${randomUUID()}`, changes)
})

/** The sign-ins that a registered client starts. @throws {InconclusiveError} without `--register` */
const startsOfClient = observation(async (server: KnownServer, examination: Examination) => {
  const endpoint = registrationEndpoint(server, examination)
  const { response, client } = await registerClient(examination, endpoint, { redirect_uris: [REDIRECT_URI] })
  const { client_id: clientId } = client
  onlyIf(
    response.succeeded && typeof clientId === 'string',
    'doctor could not register a client: see issuer.register',
  )
  const first = await open(server, examination, clientId)
  if (first.kind === 'refused') onlyIf(false, `the request of a registered client gets ${first.seen}`)
  return { clientId, first, second: await open(server, examination, clientId) }
})

function registrationEndpoint({ document }: KnownServer, examination: Examination): URL {
  onlyIf(examination.options.register === true, ONLY_WITH_REGISTER)
  const endpoint = examination.safeUrl(document.registration_endpoint)
  onlyIf(endpoint !== undefined, 'the authorization server does not support dynamic registration')
  return endpoint
}

/** Returns a check of the request that a registered client leads to at an identity provider. */
function ofUpstream(
  check: (first: URL, second: URL, clientId: string) => Finding | Promise<Finding>,
): CheckFunction {
  return ofEach(async (server, examination) => {
    const { first, second, clientId } = await startsOfClient(server, examination)
    onlyIf(
      first.kind === 'upstream' && second.kind === 'upstream',
      'the sign-in does not lead to another authorization server at once',
    )
    return await check(first.url, second.url, clientId)
  })
}

/** Returns the finding about a request that must be refused. */
function findingOf(acceptance: Acceptance, what: string, refused: string, hint: string): Finding {
  if (acceptance === 'no') return ok(refused)
  if (acceptance === 'yes') return fail(`${what} is accepted`, hint)
  return warn(`${what} gets the same page as a correct request`, `${hint}, before the sign-in`)
}

const REDIRECT_HINT =
  'show an error page for a redirect URI that is not registered for the client, and compare the whole string (RFC 9700 §2.1)'

export const SIGN_IN_FLAWS: CheckFunctions = {
  'flaw.registration': ofEach(async (server, examination) => {
    const endpoint = registrationEndpoint(server, examination)
    const accepted: string[] = []
    for (const uri of [...HARMFUL_URIS, FOREIGN_URI]) {
      const { response, client } = await registerClient(examination, endpoint, { redirect_uris: [uri] })
      // A server may leave a redirect URI out instead.
      const registered = textsOf(client, 'redirect_uris') ?? [uri]
      if (response.succeeded && registered.includes(uri)) accepted.push(uri)
    }
    const harmful = accepted.filter((uri) => uri !== FOREIGN_URI)
    if (harmful.length > 0)
      return fail(
        `anybody can register ${quoteAll(harmful)}`,
        'accept only https, http on loopback, and the private schemes of known clients (RFC 8252 §7)',
      )
    if (accepted.length === 0) return ok('scripts, http, and addresses of strangers are refused')
    return ok(
      'scripts and http are refused; anybody can register an https address, so the consent page must name its host',
    )
  }),
  'flaw.unknown-client': ofEach(async (server, examination) => {
    const start = await startOfStranger(server, examination)
    const correct = (await ifPossible(startsOfClient(server, examination)))?.first
    onlyIf(
      correct !== undefined || !['page', 'elsewhere'].includes(start.kind),
      'the response is either an error or a sign-in: use --register to compare',
    )
    return findingOf(
      acceptanceOf(start, correct),
      'a client_id that does not exist',
      'an unknown client_id is refused',
      'show an error page for a client_id that is not registered (RFC 6749 §4.1.2.1)',
    )
  }),
  'flaw.upstream-pkce': ofUpstream((url) => {
    const { host, searchParams } = url
    const isVisible = !searchParams.has('request_uri') && !searchParams.has('request')
    onlyIf(isVisible, 'the parameters of the request to the identity provider are not visible')
    const method = searchParams.get('code_challenge_method')
    if (searchParams.has('code_challenge') && method === 'S256') return ok(`S256 at ${quote(host)}`)
    return warn(
      `the request to ${quote(host)} has ${searchParams.has('code_challenge') ? `the method ${quote(method ?? 'plain')}` : 'no code_challenge'}`,
      'send a code_challenge with S256 to the identity provider as well (RFC 9700 §2.1.1)',
    )
  }),
  'flaw.upstream-context': ofUpstream((url, _second, clientId) => {
    const texts = [new URL(REDIRECT_URI).host, clientId]
    const context = readableContext(url.searchParams.get('state') ?? '', texts)
    if (context === undefined) return ok('nothing readable in state')
    return warn(
      `anybody can read ${quote(context)} in the state at ${quote(url.host)}, and change it if the server does not notice`,
      'send a random state, and keep what belongs to it on the server',
    )
  }),
  'flaw.pkce': ofEach(async (server, examination) => {
    const hint =
      'refuse authorization requests without code_challenge and with a method other than S256 (RFC 9700 §2.1.1)'
    if (textsOf(server.document, 'code_challenge_methods_supported')?.includes('plain') === true)
      return warn('code_challenge_methods_supported contains plain', hint)
    const { first, clientId } = await startsOfClient(server, examination)
    const requests = {
      'a request without code_challenge': { code_challenge: null, code_challenge_method: null },
      'a request with the method plain': { code_challenge_method: 'plain' },
    }
    return await findingsOfEach(Object.entries(requests), async ([what, changes]) => {
      const start = await open(server, examination, clientId, changes)
      return findingOf(acceptanceOf(start, first), what, 'only S256 is accepted', hint)
    })
  }),
  'flaw.consent': ofEach(async (server, examination) => {
    const { first } = await startsOfClient(server, examination)
    if (first.kind === 'client' && first.url.searchParams.has('code'))
      return fail(
        'an authorization request gets a code at once, without a sign-in and without a consent',
        'sign the user in, and show a page that names the client and the host of its redirect URI',
      )
    return ok('no code before a sign-in; check that the consent page names the host of the redirect URI')
  }),
  'flaw.redirect': ofEach(async (server, examination) => {
    const stranger = await startOfStranger(server, examination)
    if (stranger.kind === 'client')
      return fail('an unknown client is redirected to an address of its choice', REDIRECT_HINT)
    if (examination.options.register !== true) return ok('an unknown client is not redirected')
    const { first, clientId } = await startsOfClient(server, examination)
    return await findingsOfEach(CHANGED_URIS, async (uri) => {
      const start = await open(server, examination, clientId, { redirect_uri: uri })
      const acceptance = start.kind === 'client' ? 'yes' : acceptanceOf(start, first)
      return findingOf(acceptance, quote(uri), 'changed redirect URIs are refused', REDIRECT_HINT)
    })
  }),
  'flaw.upstream-state': ofUpstream((first, second) => {
    const [one, other] = [first, second].map(({ searchParams }) => searchParams.get('state') ?? '')
    const hint = 'send at least 128 random bits as state, and bind them to the browser (RFC 9700 §4.7.1)'
    if (!one || !other) return fail(`the request to ${quote(first.host)} has no state`, hint)
    if (one === other) return fail(`each request to ${quote(first.host)} has the same state`, hint)
    if (statesDiffer(one, other)) return ok('a random state')
    return fail('the states of two sign-ins differ in a few characters only', hint)
  }),
  async 'flaw.code-replay'(examination) {
    const { replayCode } = examination
    onlyIf(replayCode !== undefined, 'only with --login')
    // The second use can end the grant, and with it the token that ends sessions.
    await examination.close()
    const response = await replayCode().catch(() => undefined)
    onlyIf(response !== undefined, 'the token endpoint did not respond to the second use')
    await response.body?.cancel()
    const seen = `${response.status} for a code that was used before`
    if (!response.ok) return ok(seen)
    return fail(seen, 'delete a code when it is used, in one step with its use (RFC 6749 §4.1.2)')
  },
}
