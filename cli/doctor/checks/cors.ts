import { type CheckFunctions, type Examination, observation } from '../examination.ts'
import { type Finding, fail, findingsOfEach, ifPossible, ok, onlyIf, warn, worst } from '../finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from '../http-exchange.ts'
import { initialize, MODERN_REVISION, NEWEST_LEGACY } from '../messages.ts'
import { quote } from '../quote.ts'
import { urlOf } from '../values.ts'
import { ofEach } from './issuers.ts'
import { resourceMetadata } from './metadata.ts'
import { answersWithoutToken, isGuarded, refusal } from './protection.ts'
import { conversation, goodToken, revisions } from './protocol.ts'
import { firstResponse } from './server.ts'
import { underScopedResponse } from './tokens.ts'

const PREFLIGHT_HINT =
  'respond to OPTIONS without a token, with 204 and Access-Control-Allow-Origin (mcp-gatekit: mcpCors before mcpAuth)'

/** With `--origin`, the server must allow that origin. */
const OTHER_ORIGIN_HINT =
  'allow the origin of the web page at the server (mcp-gatekit: add it to allowedOrigins), or correct --origin'

/** Returns the options of a preflight for a request with these headers. */
const preflightOf = ({ pageOrigin }: Examination, method: string, headers: readonly string[]) => ({
  headers: {
    origin: pageOrigin,
    'access-control-request-method': method,
    'access-control-request-headers': headers.join(','),
  },
})

/** Returns `true` if a web page at the examined origin can read the response. */
export function readable(response: HttpExchange | undefined, { pageOrigin }: Examination): boolean {
  const allowed = response?.header('access-control-allow-origin')?.trim()
  return allowed === '*' || allowed === pageOrigin
}

export function allows(response: HttpExchange, header: string): boolean {
  const allowed = namesIn(response.header('access-control-allow-headers'))
  // The wildcard does not include Authorization (Fetch §4.8).
  return allowed.includes(header) || (header !== 'authorization' && allowed.includes('*'))
}

function namesIn(list: string | undefined): string[] {
  return (list ?? '').split(',').map((name) => name.trim().toLowerCase())
}

/** The headers that a web page must be able to send, and those that are useful. */
const headersWanted = observation(async (examination) => {
  // Another check reports why the revisions are not known.
  const seen = await revisions(examination).catch(() => undefined)
  const modern = ['mcp-method', 'mcp-name']
  const session = ['mcp-session-id']
  const isModern = seen?.served.includes(MODERN_REVISION) === true
  const hasSession = seen?.sessionId !== undefined
  const some = (isWanted: boolean, names: readonly string[]) => (isWanted ? names : [])
  const always = ['content-type', 'mcp-protocol-version']
  const token = some(await isGuarded(examination), ['authorization'])
  return {
    needed: [...token, ...always, ...some(isModern, modern), ...some(hasSession, session)],
    useful: [
      ...some(!isModern, modern),
      ...some(!hasSession, session),
      'last-event-id',
      ...some(isModern, ['mcp-param-doctor']),
    ],
  }
})

function preflight(examination: Examination, names: readonly string[]): Promise<HttpExchange> {
  return examination.send('OPTIONS', preflightOf(examination, 'POST', names))
}

const firstPreflight = observation(async (examination) => {
  const { needed, useful } = await headersWanted(examination)
  return await preflight(examination, [...needed, ...useful])
})

/** The response to the first request if a web page sends it. */
const pageResponse = observation((examination) =>
  examination.post(initialize(NEWEST_LEGACY), { headers: { origin: examination.pageOrigin } }),
)

/** `true` if web pages are meant to use the server: it sends CORS headers, or `--origin` is given. */
const isForPages = observation(
  async (examination) =>
    examination.options.origin !== undefined ||
    (await firstPreflight(examination)).header('access-control-allow-origin') !== undefined ||
    (await pageResponse(examination)).header('access-control-allow-origin') !== undefined,
)

/**
 * Returns the origin that the server allows instead, or `true` if the server does not name it. Returns `undefined` if the server
 * does not decide by the origin of the page.
 */
async function otherOrigin(examination: Examination): Promise<string | true | undefined> {
  const response = await firstPreflight(examination)
  const named = response.header('access-control-allow-origin')?.trim()
  const isOrigin = named !== undefined && urlOf(named)?.origin === named
  if (isOrigin && named !== examination.pageOrigin) return named
  if (named === undefined && response.succeeded && namesIn(response.header('vary')).includes('origin'))
    return true
  if (response.status !== 403 || (await firstResponse(examination)).status === 403) return undefined
  const page = await pageResponse(examination)
  const saysSo = /\borigin\b/i.test(response.reason.description ?? '')
  return page.status === 403 || (saysSo && !readable(page, examination)) ? true : undefined
}

/** @throws {InconclusiveError} if the server is not meant for web pages */
async function onlyForPages(examination: Examination): Promise<void> {
  onlyIf(await isForPages(examination), 'the server sends no CORS headers: see cors.preflight')
}

/** The responses that a web page can get: 401, success, and insufficient scope, as far as possible. */
const pageResponses = observation(async (examination) => {
  const headers = { origin: examination.pageOrigin }
  const page = await pageResponse(examination)
  const listTools = async (): Promise<HttpExchange> => {
    const message = (await conversation(examination)).message('tools/list')
    return await examination.post(message, { token: await goodToken(examination), headers })
  }
  const listed = (await ifPossible(listTools())) ?? []
  const forbidden = (await ifPossible(underScopedResponse(examination, headers))) ?? []
  const isLimited = ({ status, outgoing }: HttpExchange): boolean =>
    status === 429 && outgoing.headers.origin !== undefined
  return [page, listed, forbidden, examination.exchanges.filter(isLimited)].flat()
})

/** Returns a check of each response that a web page can get. */
function ofEachPage(check: (response: HttpExchange, examination: Examination) => Finding) {
  return async (examination: Examination): Promise<Finding> => {
    await onlyForPages(examination)
    return worst((await pageResponses(examination)).map((response) => check(response, examination)))
  }
}

const HINT =
  'enable CORS at the authorization server for its metadata, registration, and token endpoints, or add the origins of the web pages there: other clients do not need it'

/** The registration endpoint gets only a preflight, because a request could register a client. */
const ENDPOINTS = ['registration_endpoint', 'token_endpoint'] as const

/** A request without a code and a client, which gets an error and has no effect. */
const TOKEN_REQUEST = 'grant_type=authorization_code'

/**
 * Returns the reason why a web page cannot use an endpoint, or `undefined`.
 * @param sends `true` to send a token request. Its response is sufficient, because a form needs no preflight (Fetch §4.8)
 */
async function problemOf(examination: Examination, url: URL, sends: boolean): Promise<string | undefined> {
  if (sends) {
    const headers = {
      origin: examination.pageOrigin,
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    }
    const response = await answerOf(examination.fetch('POST', url, { headers, body: TOKEN_REQUEST }))
    if (response instanceof NoResponseError) return `no response (${response.detail})`
    if (readable(response, examination)) return undefined
  }
  // The response of a token endpoint can depend on the client, which the request does not name, but its preflight cannot.
  const request = preflightOf(examination, 'POST', ['content-type'])
  const preflight = await answerOf(examination.fetch('OPTIONS', url, request))
  if (preflight instanceof NoResponseError) return `no response (${preflight.detail})`
  const isReadable = readable(preflight, examination)
  if (!preflight.succeeded || !isReadable)
    return `the preflight gets ${preflight.summary}${isReadable ? '' : ' without Access-Control-Allow-Origin'}`
  return allows(preflight, 'content-type') ? undefined : 'the preflight does not allow Content-Type'
}

const ATTACKER = 'attacker.example'

const REBINDING =
  'check Origin and Host first and respond with 403: otherwise a web page can use the server by DNS rebinding (mcp-gatekit: allowedOrigins, allowedHosts)'

const LOCAL_GUARDED =
  'check Origin and Host, as MCP requires of local servers (mcp-gatekit: mcpServer and mcpHandler do; in front of another server: createMcpExpressApp of @modelcontextprotocol/express)'

const FIXED_URL =
  'configure the public URL of the server (mcp-gatekit: resource) instead of reading it from the request, and trust forwarded headers only behind a proxy that sets them'

/** Sends a handshake as an attacking web page would. @param withToken `true` to send a valid token if there is one */
async function asAttacker(
  examination: Examination,
  headers: Readonly<Record<string, string>>,
  withToken: boolean,
): Promise<HttpExchange> {
  // Another check reports why the token is missing.
  const token = withToken ? await goodToken(examination).catch(() => undefined) : undefined
  return await examination.post(initialize(NEWEST_LEGACY), { token, headers })
}

async function checkServed(examination: Examination, response: HttpExchange, seen: string): Promise<Finding> {
  if (!response.succeeded) return ok(seen)
  if (await answersWithoutToken(examination)) return (examination.isLocal ? fail : warn)(seen, REBINDING)
  // Browsers never add a bearer token themselves, so a page without a token gets nothing.
  const guarded = `${seen}, but only with a token`
  return examination.isLocal ? warn(guarded, LOCAL_GUARDED) : ok(guarded)
}

/** Returns `true` if the challenge sends clients to a document on the host of the attacker. */
const namesAttacker = (response: HttpExchange): boolean =>
  urlOf(response.parameter('resource_metadata'))?.hostname === ATTACKER

export const CORS: CheckFunctions = {
  async 'cors.preflight'(examination) {
    const { pageOrigin } = examination
    const response = await firstPreflight(examination)
    if (response.succeeded && readable(response, examination))
      return ok(`${response.status} for ${pageOrigin}`)
    const other = await otherOrigin(examination)
    if (other !== undefined) {
      const only = other === true ? 'other origins only' : `${quote(other)} only`
      const refused = `${response.status} for ${pageOrigin}: the server allows ${only}`
      const isWanted = examination.options.origin !== undefined
      onlyIf(isWanted, `${refused}. To check it, pass an allowed origin with --origin`)
      return fail(refused, OTHER_ORIGIN_HINT)
    }
    const allowed = response.header('access-control-allow-origin')
    const problem = allowed === undefined ? 'without Access-Control-Allow-Origin' : `for ${quote(allowed)}`
    const seen = `${response.summary} for ${pageOrigin}, ${problem}`
    return (await isForPages(examination))
      ? fail(seen, PREFLIGHT_HINT)
      : warn(`${seen}: clients that run in a browser cannot connect`, PREFLIGHT_HINT)
  },
  async 'cors.headers'(examination) {
    await onlyForPages(examination)
    const { needed, useful } = await headersWanted(examination)
    const all = await firstPreflight(examination)
    const missing: string[] = []
    for (const header of [...needed, ...useful]) {
      if (allows(all, header)) continue
      // Some servers allow all headers or none. They may allow the header if it is requested separately.
      const alone = await preflight(examination, [header])
      if (!readable(alone, examination) || !allows(alone, header)) missing.push(header)
    }
    if (missing.length === 0) return ok([...needed, ...useful].join(', '))
    const hint = `list them in Access-Control-Allow-Headers individually: * does not include Authorization${missing.includes('mcp-param-doctor') ? '; allow every requested Mcp-Param-* header' : ''}`
    const isNeeded = missing.some((header) => needed.includes(header))
    return (isNeeded ? fail : warn)(`not allowed: ${missing.join(', ')}`, hint)
  },
  'cors.responses': ofEachPage((response, examination) => {
    if (!readable(response, examination))
      return fail(
        `${response.status} without Access-Control-Allow-Origin for ${examination.pageOrigin}`,
        'send it with every response, including errors: otherwise a web page cannot read the 401 and start a sign-in',
      )
    const isExact = response.header('access-control-allow-origin')?.trim() === examination.options.origin
    if (response.header('access-control-allow-credentials')?.trim() !== 'true' || isExact)
      return ok(String(response.status))
    return warn(
      `${response.status} with Access-Control-Allow-Credentials for any origin`,
      'remove the header: tokens are sent in Authorization, and no other origin should be able to use cookies',
    )
  }),
  'cors.exposed': ofEachPage((response) => {
    const exposed = namesIn(response.header('access-control-expose-headers'))
    const hidden = ['www-authenticate', 'mcp-session-id', 'retry-after', 'dpop-nonce'].filter(
      (name) => response.header(name) !== undefined && !exposed.includes(name) && !exposed.includes('*'),
    )
    if (hidden.length === 0) return ok(`of ${response.status}`)
    const isMinor = hidden.every((name) => name === 'retry-after')
    return (isMinor ? warn : fail)(
      `${response.status} hides ${hidden.join(', ')}`,
      'send Access-Control-Expose-Headers: WWW-Authenticate, Mcp-Session-Id, Retry-After with every response',
    )
  }),
  async 'cors.metadata'(examination) {
    await onlyForPages(examination)
    const { response, url } = await resourceMetadata(examination)
    const hint =
      'send Access-Control-Allow-Origin: * with the metadata document, and respond to its preflight (mcp-gatekit: protectedResourceRouter)'
    if (!readable(response, examination)) return fail('without Access-Control-Allow-Origin', hint)
    const request = preflightOf(examination, 'GET', ['mcp-protocol-version'])
    const asked = await examination.fetch('OPTIONS', url, request)
    return asked.succeeded && readable(asked, examination) && allows(asked, 'mcp-protocol-version')
      ? ok('the document and its preflight')
      : warn(`its preflight gets ${asked.summary}`, hint)
  },
  'issuer.cors': ofEach(async ({ issuer, document, url: source, response }, examination) => {
    await onlyForPages(examination)
    const metadata = readable(response, examination)
      ? ok('metadata')
      : warn(`the metadata of ${quote(issuer)} is sent without Access-Control-Allow-Origin`, HINT)
    const endpoints = await findingsOfEach(ENDPOINTS, async (endpoint) => {
      const url = examination.safeUrl(document[endpoint])
      if (url === undefined) return undefined
      // Another host than that of the metadata gets no POST, because it did not name this endpoint itself.
      const sends = endpoint === 'token_endpoint' && url.origin === source.origin
      const problem = await problemOf(examination, url, sends)
      return problem === undefined ? ok(endpoint) : warn(`${endpoint} of ${quote(issuer)}: ${problem}`, HINT)
    })
    return [metadata, ...endpoints]
  }),
  async 'origin.foreign'(examination) {
    const response = await asAttacker(examination, { origin: `https://${ATTACKER}` }, true)
    const seen = `${response.status} for Origin: https://${ATTACKER}`
    if (response.status === 401) return ok(`${seen}, as for every request without a token`)
    return await checkServed(examination, response, seen)
  },
  async 'host.foreign'(examination) {
    const { url, isLocal } = examination
    const host = `${ATTACKER}${url.port === '' ? '' : `:${url.port}`}`
    // On another machine, a proxy can route by the host name to another server, which must not get the token.
    const response = await answerOf(asAttacker(examination, { host }, isLocal))
    if (response instanceof NoResponseError) {
      if (response.kind === 'closed') return ok('the connection was closed')
      throw response
    }
    const seen = `${response.status} for Host: ${ATTACKER}`
    if (namesAttacker(response)) return warn(`${seen}, with a challenge that names this host`, FIXED_URL)
    return await checkServed(examination, response, seen)
  },
  async 'host.forwarded'(examination) {
    await refusal(examination)
    const headers = {
      'x-forwarded-host': ATTACKER,
      'x-forwarded-proto': 'https',
      forwarded: `host=${ATTACKER};proto=https`,
    }
    return namesAttacker(await asAttacker(examination, headers, false))
      ? warn(`X-Forwarded-Host: ${ATTACKER} gets a challenge that names this host`, FIXED_URL)
      : ok('the challenge does not change')
  },
}
