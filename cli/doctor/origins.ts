import { bearerChallengeOf } from './challenges.ts'
import type { Check } from './check.ts'
import { goodToken } from './conversation.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { initialize, NEWEST_LEGACY } from './messages.ts'
import { answersWithoutToken, refusal } from './protection.ts'

const ATTACKER = 'attacker.example'

const REBINDING =
  'check Origin and Host first and respond with 403: otherwise a web page can use the server by DNS rebinding (mcp-gatekit: allowedOrigins, allowedHosts)'

const LOCAL_GUARDED =
  'check Origin and Host, as MCP requires of local servers (mcp-gatekit: mcpServer and mcpHandler do; in front of another server: createMcpExpressApp of @modelcontextprotocol/express)'

/** Sends a handshake as an attacking web page would, with a valid token if there is one. */
async function asAttacker(
  examination: Examination,
  headers: Readonly<Record<string, string>>,
  withToken: boolean,
): Promise<HttpExchange> {
  const token = withToken ? await goodToken(examination).catch(() => undefined) : undefined
  return await examination.post(initialize(NEWEST_LEGACY), { ...(token !== undefined && { token }), headers })
}

async function checkServed(examination: Examination, seen: string): Promise<Finding> {
  if (await answersWithoutToken(examination))
    return examination.isLocal ? fail(seen, REBINDING) : warn(seen, REBINDING)
  // Browsers never add a bearer token themselves, so a page without a token gets nothing.
  const guarded = `${seen}, but only with a token`
  return examination.isLocal ? warn(guarded, LOCAL_GUARDED) : ok(guarded)
}

/** Returns `true` if the challenge sends clients to a document on the host of the attacker. */
function namesAttacker(response: HttpExchange): boolean {
  const named =
    bearerChallengeOf(response.header('www-authenticate'))?.parameters.get('resource_metadata') ?? ''
  return URL.canParse(named) && new URL(named).hostname === ATTACKER
}

const FIXED_URL =
  'configure the public URL of the server (mcp-gatekit: resource) instead of reading it from the request, and trust forwarded headers only behind a proxy that sets them'

export const ORIGINS: readonly Check[] = [
  {
    id: 'origin.foreign',
    title: 'A web page of an unknown origin is rejected',
    needs: ['server.endpoint'],
    async run(examination) {
      const response = await asAttacker(examination, { origin: `https://${ATTACKER}` }, true)
      const seen = `${response.status} for Origin: https://${ATTACKER}`
      if (response.status === 401) return ok(`${seen}, as for every request without a token`)
      return response.succeeded ? await checkServed(examination, seen) : ok(seen)
    },
  },
  {
    id: 'host.foreign',
    title: 'An unknown host name is rejected',
    needs: ['server.endpoint'],
    async run(examination) {
      const port = examination.url.port === '' ? '' : `:${examination.url.port}`
      try {
        // On another machine, a proxy can route by the host name to another server, which must not get the token.
        const response = await asAttacker(examination, { host: `${ATTACKER}${port}` }, examination.isLocal)
        const seen = `${response.status} for Host: ${ATTACKER}`
        if (namesAttacker(response)) return warn(`${seen}, with a challenge that names this host`, FIXED_URL)
        return response.succeeded ? await checkServed(examination, seen) : ok(seen)
      } catch (error) {
        if (error instanceof NoResponseError && error.kind === 'closed')
          return ok('the connection was closed')
        throw error
      }
    },
  },
  {
    id: 'host.forwarded',
    title: 'Forwarded headers of a client are ignored',
    needs: ['challenge.resource-metadata'],
    async run(examination) {
      await refusal(examination)
      const response = await asAttacker(
        examination,
        {
          'x-forwarded-host': ATTACKER,
          'x-forwarded-proto': 'https',
          forwarded: `host=${ATTACKER};proto=https`,
        },
        false,
      )
      return namesAttacker(response)
        ? warn(`X-Forwarded-Host: ${ATTACKER} gets a challenge that names this host`, FIXED_URL)
        : ok('the challenge does not change')
    },
  },
]
