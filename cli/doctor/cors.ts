import type { CheckFunctions } from './check.ts'
import { conversation, goodToken, revisions } from './conversation.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { urlOf } from './json-object.ts'
import { initialize, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'
import { isGuarded } from './protection.ts'
import { quote } from './quote.ts'
import { firstResponse } from './reachability.ts'
import { resourceMetadata } from './resource-metadata.ts'
import { underScopedResponse } from './tokens.ts'

const PREFLIGHT_HINT =
  'respond to OPTIONS without a token, with 204 and Access-Control-Allow-Origin (mcp-gatekit: mcpCors before mcpAuth)'

/** With `--origin`, the server must allow that origin. */
const OTHER_ORIGIN_HINT =
  'allow the origin of the web page at the server (mcp-gatekit: add it to allowedOrigins), or correct --origin'

/** Returns the headers of a preflight for a request with these headers. */
export function preflightOf(
  { pageOrigin }: Examination,
  method: string,
  headers: readonly string[],
): Readonly<Record<string, string>> {
  return {
    origin: pageOrigin,
    'access-control-request-method': method,
    'access-control-request-headers': headers.join(','),
  }
}

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

interface HeadersWanted {
  /** The headers that a web page must be able to send. */
  readonly needed: readonly string[]
  readonly useful: readonly string[]
}

const headersWanted: Observation<HeadersWanted> = observation(async (examination) => {
  // Another check reports why the revisions are not known.
  const seen = await revisions(examination).catch(() => undefined)
  const modern = ['mcp-method', 'mcp-name']
  const session = ['mcp-session-id']
  const isModern = seen?.served.includes(MODERN_REVISION) === true
  const hasSession = seen?.sessionId !== undefined
  const needed = [
    ...((await isGuarded(examination)) ? ['authorization'] : []),
    'content-type',
    'mcp-protocol-version',
    ...(isModern ? modern : []),
    ...(hasSession ? session : []),
  ]
  const useful = [
    ...(isModern ? [] : modern),
    ...(hasSession ? [] : session),
    'last-event-id',
    ...(isModern ? ['mcp-param-doctor'] : []),
  ]
  return { needed, useful }
})

function preflight(examination: Examination, names: readonly string[]): Promise<HttpExchange> {
  return examination.send('OPTIONS', { headers: preflightOf(examination, 'POST', names) })
}

const firstPreflight: Observation<HttpExchange> = observation(async (examination) => {
  const { needed, useful } = await headersWanted(examination)
  return await preflight(examination, [...needed, ...useful])
})

/** The response to the first request if a web page sends it. */
const pageResponse: Observation<HttpExchange> = observation((examination) =>
  examination.post(initialize(NEWEST_LEGACY), { headers: { origin: examination.pageOrigin } }),
)

/** `true` if web pages are meant to use the server: it sends CORS headers, or `--origin` is given. */
const isForPages: Observation<boolean> = observation(
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
export async function onlyForPages(examination: Examination): Promise<void> {
  if (!(await isForPages(examination)))
    throw new InconclusiveError('the server sends no CORS headers: see cors.preflight')
}

/** The responses that a web page can get: 401, success, and insufficient scope, as far as possible. */
const pageResponses: Observation<readonly HttpExchange[]> = observation(async (examination) => {
  const headers = { origin: examination.pageOrigin }
  const responses = [await pageResponse(examination)]
  const attempts = [
    async () => {
      const message = (await conversation(examination)).message('tools/list')
      return await examination.post(message, { token: await goodToken(examination), headers })
    },
    () => underScopedResponse(examination, headers),
  ]
  for (const attempt of attempts) {
    try {
      responses.push(await attempt())
    } catch (error) {
      if (!(error instanceof InconclusiveError)) throw error
    }
  }
  const isLimited = ({ status, outgoing }: HttpExchange): boolean =>
    status === 429 && outgoing.headers.origin !== undefined
  return [...responses, ...examination.exchanges.filter(isLimited)]
})

/** Returns a check of each response that a web page can get. */
function ofEachPage(check: (response: HttpExchange, examination: Examination) => Finding) {
  return async (examination: Examination): Promise<Finding> => {
    await onlyForPages(examination)
    return worst((await pageResponses(examination)).map((response) => check(response, examination)))
  }
}

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
      if (examination.options.origin !== undefined) return fail(refused, OTHER_ORIGIN_HINT)
      throw new InconclusiveError(`${refused}. To check it, pass an allowed origin with --origin`)
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
    const headers = preflightOf(examination, 'GET', ['mcp-protocol-version'])
    const asked = await examination.fetch('OPTIONS', url, { headers })
    return asked.succeeded && readable(asked, examination) && allows(asked, 'mcp-protocol-version')
      ? ok('the document and its preflight')
      : warn(`its preflight gets ${asked.summary}`, hint)
  },
}
