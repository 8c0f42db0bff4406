import type { CheckFunctions } from './check.ts'
import { goodToken } from './conversation.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from './http-exchange.ts'
import { urlOf } from './json-object.ts'
import { initialize, NEWEST_LEGACY } from './messages.ts'
import { answersWithoutToken, refusal } from './protection.ts'

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
function namesAttacker({ challenge }: HttpExchange): boolean {
  return urlOf(challenge?.parameters.get('resource_metadata'))?.hostname === ATTACKER
}

export const ORIGINS: CheckFunctions = {
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
