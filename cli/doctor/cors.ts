import { authorizationServers } from './authorization-servers.ts'
import type { Check } from './check.ts'
import { conversation, goodToken, revisions } from './conversation.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'
import { isGuarded } from './protection.ts'
import { quote } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'
import { underScopedAnswer } from './tokens.ts'

const MEND_PREFLIGHT =
  'answer OPTIONS before asking for a token, with 204 and Access-Control-Allow-Origin (mcp-gatekit: mcpCors in front of mcpAuth)'

async function preflight(examination: Examination, headers: readonly string[]): Promise<HttpExchange> {
  return await examination.send('OPTIONS', {
    origin: examination.pageOrigin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': headers.join(','),
  })
}

/** Whether the page at the examined origin may read this answer. */
function readable(answer: HttpExchange | undefined, { pageOrigin }: Examination): boolean {
  const allowed = answer?.header('access-control-allow-origin')?.trim()
  return allowed === '*' || allowed === pageOrigin
}

function allows(answer: HttpExchange, header: string): boolean {
  const allowed = namesIn(answer.header('access-control-allow-headers'))
  // The wildcard never covers Authorization (Fetch §4.8).
  return allowed.includes(header) || (header !== 'authorization' && allowed.includes('*'))
}

function namesIn(list: string | undefined): string[] {
  return (list ?? '').split(',').map((name) => name.trim().toLowerCase())
}

interface HeadersWanted {
  /** Without these a page gets nowhere. */
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

/** The same request as the first one, from a page. */
const pageAnswer: Observation<HttpExchange> = observation((examination) =>
  examination.post(initialize(NEWEST_LEGACY), { headers: { origin: examination.pageOrigin } }),
)

/** Whether pages are meant to use the server: it lets them here or there, or the person who asks says so. */
const isForPages: Observation<boolean> = observation(
  async (examination) =>
    examination.options.origin !== undefined ||
    (await firstPreflight(examination)).header('access-control-allow-origin') !== undefined ||
    (await pageAnswer(examination)).header('access-control-allow-origin') !== undefined,
)

async function onlyForPages(examination: Examination): Promise<void> {
  if (!(await isForPages(examination)))
    throw new InconclusiveError('it has no CORS at all: see cors.preflight')
}

/** What a page gets: refused, served, and with too few scopes, as far as each can be had. */
const pageAnswers: Observation<readonly HttpExchange[]> = observation(async (examination) => {
  const origin = { origin: examination.pageOrigin }
  const answers = [await pageAnswer(examination)]
  const attempts = [
    async () => {
      const talk = await conversation(examination)
      const token = await goodToken(examination)
      return await examination.post(talk.message('tools/list'), {
        ...(token !== undefined && { token }),
        headers: origin,
      })
    },
    () => underScopedAnswer(examination, origin),
  ]
  for (const attempt of attempts) {
    const answer = await attempt().catch((error: unknown) => {
      if (error instanceof InconclusiveError) return undefined
      throw error
    })
    if (answer !== undefined) answers.push(answer)
  }
  return [...answers, ...examination.exchanges.filter(isLimitedPage)]
})

function isLimitedPage({ status, outgoing }: HttpExchange): boolean {
  return status === 429 && outgoing.headers.origin !== undefined
}

export const CORS: readonly Check[] = [
  {
    id: 'cors.preflight',
    title: 'A preflight is answered without a token',
    needs: ['server.endpoint'],
    async run(examination) {
      const answer = await firstPreflight(examination)
      if (answer.succeeded && readable(answer, examination))
        return ok(`${answer.status} for ${examination.pageOrigin}`)
      const allowed = answer.header('access-control-allow-origin')
      const seen = `${answer.status} for ${examination.pageOrigin}, ${allowed === undefined ? 'without Access-Control-Allow-Origin' : `for ${quote(allowed)}`}`
      if (!(await isForPages(examination)))
        return warn(`${seen}: clients that run in a browser cannot connect`, MEND_PREFLIGHT)
      return fail(seen, MEND_PREFLIGHT)
    },
  },
  {
    id: 'cors.headers',
    title: 'Every header that clients send is allowed',
    needs: ['cors.preflight'],
    async run(examination) {
      await onlyForPages(examination)
      const { needed, useful } = await headersWanted(examination)
      const all = await firstPreflight(examination)
      const missing: string[] = []
      for (const header of [...needed, ...useful]) {
        if (allows(all, header)) continue
        // Some answer all or nothing: asked alone, the header may be allowed.
        const alone = await preflight(examination, [header])
        if (!readable(alone, examination) || !allows(alone, header)) missing.push(header)
      }
      if (missing.length === 0) return ok([...needed, ...useful].join(', '))
      const hint = `name them in Access-Control-Allow-Headers, one by one: * does not cover Authorization${missing.includes('mcp-param-doctor') ? '; allow every Mcp-Param-* that is asked for' : ''}`
      const seen = `not allowed: ${missing.join(', ')}`
      return missing.some((header) => needed.includes(header)) ? fail(seen, hint) : warn(seen, hint)
    },
  },
  {
    id: 'cors.responses',
    title: 'Pages may read every answer',
    needs: ['cors.preflight'],
    async run(examination) {
      await onlyForPages(examination)
      return worst(
        (await pageAnswers(examination)).map((answer) => {
          if (!readable(answer, examination)) {
            return fail(
              `${answer.status} without Access-Control-Allow-Origin for ${examination.pageOrigin}`,
              'send it with every answer, refusals and errors too: without it a page sees no 401 and cannot sign in',
            )
          }
          const credentials = answer.header('access-control-allow-credentials')?.trim() === 'true'
          return credentials &&
            answer.header('access-control-allow-origin')?.trim() !== examination.options.origin
            ? warn(
                `${answer.status} with Access-Control-Allow-Credentials for any origin`,
                'leave the header out: tokens travel in Authorization, and cookies of users are not for every page',
              )
            : ok(String(answer.status))
        }),
      )
    },
  },
  {
    id: 'cors.exposed',
    title: 'Pages may read the headers that matter',
    needs: ['cors.responses'],
    async run(examination) {
      await onlyForPages(examination)
      return worst((await pageAnswers(examination)).map(judgeExposed))
    },
  },
  {
    id: 'cors.metadata',
    title: 'Pages may read the metadata document',
    needs: ['cors.preflight', 'metadata.found'],
    async run(examination) {
      await onlyForPages(examination)
      const { answer, url } = await resourceMetadata(examination)
      const hint =
        'send Access-Control-Allow-Origin: * with the metadata document, and answer its preflight (mcp-gatekit: protectedResourceRouter)'
      if (!readable(answer, examination)) return fail('without Access-Control-Allow-Origin', hint)
      const asked = await examination.fetch('OPTIONS', url, {
        headers: {
          origin: examination.pageOrigin,
          'access-control-request-method': 'GET',
          'access-control-request-headers': 'mcp-protocol-version',
        },
      })
      return asked.succeeded && readable(asked, examination) && allows(asked, 'mcp-protocol-version')
        ? ok('the document and its preflight')
        : warn(`its preflight is answered ${asked.status}`, hint)
    },
  },
  {
    id: 'cors.issuers',
    title: 'Pages may read the metadata of the authorization servers',
    needs: ['cors.preflight', 'issuer.metadata'],
    async run(examination) {
      await onlyForPages(examination)
      const servers = await authorizationServers(examination)
      return worst(
        servers.map(({ issuer, found }) =>
          readable(found?.answer, examination)
            ? ok(quote(issuer))
            : warn(
                `${quote(issuer)} sends no Access-Control-Allow-Origin`,
                'allow it at the authorization server, for its metadata, registration and token endpoints: pages cannot sign in otherwise',
              ),
        ),
      )
    },
  },
]

function judgeExposed(answer: HttpExchange): Finding {
  const exposed = namesIn(answer.header('access-control-expose-headers'))
  const hidden = ['www-authenticate', 'mcp-session-id', 'retry-after', 'dpop-nonce'].filter(
    (name) => answer.header(name) !== undefined && !exposed.includes(name) && !exposed.includes('*'),
  )
  const hint = `send Access-Control-Expose-Headers: WWW-Authenticate, Mcp-Session-Id, Retry-After with every answer`
  if (hidden.length === 0) return ok(`of ${answer.status}`)
  const seen = `${answer.status} hides ${hidden.join(', ')}`
  return hidden.every((name) => name === 'retry-after') ? warn(seen, hint) : fail(seen, hint)
}
