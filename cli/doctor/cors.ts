import type { Check } from './check.ts'
import { conversation, goodToken, revisions } from './conversation.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'
import { isGuarded } from './protection.ts'
import { quote } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'
import { underScopedResponse } from './tokens.ts'

const PREFLIGHT_HINT =
  'respond to OPTIONS without a token, with 204 and Access-Control-Allow-Origin (mcp-gatekit: mcpCors before mcpAuth)'

async function preflight(examination: Examination, headers: readonly string[]): Promise<HttpExchange> {
  return await examination.send('OPTIONS', {
    origin: examination.pageOrigin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': headers.join(','),
  })
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
  const seen = await revisions(examination).catch(() => undefined)
  const modern = ['mcp-method', 'mcp-name']
  const session = ['mcp-session-id']
  const speaksModern = seen?.served.includes(MODERN_REVISION) === true
  return {
    needed: [
      ...((await isGuarded(examination)) ? ['authorization'] : []),
      'content-type',
      'mcp-protocol-version',
      ...(speaksModern ? modern : []),
      ...(seen?.sessionId !== undefined ? session : []),
    ],
    useful: [
      ...(speaksModern ? [] : modern),
      ...(seen?.sessionId !== undefined ? [] : session),
      'last-event-id',
      ...(speaksModern ? ['mcp-param-doctor'] : []),
    ],
  }
})

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

/** @throws {InconclusiveError} if the server is not meant for web pages */
export async function onlyForPages(examination: Examination): Promise<void> {
  if (!(await isForPages(examination)))
    throw new InconclusiveError('the server sends no CORS headers: see cors.preflight')
}

/** The responses that a web page can get: 401, success, and insufficient scope, as far as possible. */
const pageResponses: Observation<readonly HttpExchange[]> = observation(async (examination) => {
  const origin = { origin: examination.pageOrigin }
  const responses = [await pageResponse(examination)]
  const attempts = [
    async () => {
      const talk = await conversation(examination)
      const token = await goodToken(examination)
      return await examination.post(talk.message('tools/list'), {
        ...(token !== undefined && { token }),
        headers: origin,
      })
    },
    () => underScopedResponse(examination, origin),
  ]
  for (const attempt of attempts) {
    const response = await attempt().catch((error: unknown) => {
      if (error instanceof InconclusiveError) return undefined
      throw error
    })
    if (response !== undefined) responses.push(response)
  }
  return [...responses, ...examination.exchanges.filter(isLimitedPage)]
})

function isLimitedPage({ status, outgoing }: HttpExchange): boolean {
  return status === 429 && outgoing.headers.origin !== undefined
}

export const CORS: readonly Check[] = [
  {
    id: 'cors.preflight',
    title: 'Preflights work without a token',
    needs: ['server.endpoint'],
    async run(examination) {
      const response = await firstPreflight(examination)
      if (response.succeeded && readable(response, examination))
        return ok(`${response.status} for ${examination.pageOrigin}`)
      const allowed = response.header('access-control-allow-origin')
      const seen = `${response.status} for ${examination.pageOrigin}, ${allowed === undefined ? 'without Access-Control-Allow-Origin' : `for ${quote(allowed)}`}`
      if (!(await isForPages(examination)))
        return warn(`${seen}: clients that run in a browser cannot connect`, PREFLIGHT_HINT)
      return fail(seen, PREFLIGHT_HINT)
    },
  },
  {
    id: 'cors.headers',
    title: 'All headers that clients send are allowed',
    needs: ['cors.preflight'],
    async run(examination) {
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
      const seen = `not allowed: ${missing.join(', ')}`
      return missing.some((header) => needed.includes(header)) ? fail(seen, hint) : warn(seen, hint)
    },
  },
  {
    id: 'cors.responses',
    title: 'Web pages can read every response',
    needs: ['cors.preflight'],
    async run(examination) {
      await onlyForPages(examination)
      return worst(
        (await pageResponses(examination)).map((response) => {
          if (!readable(response, examination)) {
            return fail(
              `${response.status} without Access-Control-Allow-Origin for ${examination.pageOrigin}`,
              'send it with every response, including errors: otherwise a web page cannot read the 401 and start a sign-in',
            )
          }
          const credentials = response.header('access-control-allow-credentials')?.trim() === 'true'
          return credentials &&
            response.header('access-control-allow-origin')?.trim() !== examination.options.origin
            ? warn(
                `${response.status} with Access-Control-Allow-Credentials for any origin`,
                'remove the header: tokens are sent in Authorization, and no other origin should be able to use cookies',
              )
            : ok(String(response.status))
        }),
      )
    },
  },
  {
    id: 'cors.exposed',
    title: 'Web pages can read the headers that clients need',
    needs: ['cors.responses'],
    async run(examination) {
      await onlyForPages(examination)
      return worst((await pageResponses(examination)).map(checkExposed))
    },
  },
  {
    id: 'cors.metadata',
    title: 'Web pages can read the metadata document',
    needs: ['cors.preflight', 'metadata.found'],
    async run(examination) {
      await onlyForPages(examination)
      const { response, url } = await resourceMetadata(examination)
      const hint =
        'send Access-Control-Allow-Origin: * with the metadata document, and respond to its preflight (mcp-gatekit: protectedResourceRouter)'
      if (!readable(response, examination)) return fail('without Access-Control-Allow-Origin', hint)
      const asked = await examination.fetch('OPTIONS', url, {
        headers: {
          origin: examination.pageOrigin,
          'access-control-request-method': 'GET',
          'access-control-request-headers': 'mcp-protocol-version',
        },
      })
      return asked.succeeded && readable(asked, examination) && allows(asked, 'mcp-protocol-version')
        ? ok('the document and its preflight')
        : warn(`its preflight gets ${asked.status}`, hint)
    },
  },
]

function checkExposed(response: HttpExchange): Finding {
  const exposed = namesIn(response.header('access-control-expose-headers'))
  const hidden = ['www-authenticate', 'mcp-session-id', 'retry-after', 'dpop-nonce'].filter(
    (name) => response.header(name) !== undefined && !exposed.includes(name) && !exposed.includes('*'),
  )
  const hint =
    'send Access-Control-Expose-Headers: WWW-Authenticate, Mcp-Session-Id, Retry-After with every response'
  if (hidden.length === 0) return ok(`of ${response.status}`)
  const seen = `${response.status} hides ${hidden.join(', ')}`
  return hidden.every((name) => name === 'retry-after') ? warn(seen, hint) : fail(seen, hint)
}
