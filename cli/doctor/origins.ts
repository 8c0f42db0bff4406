import { bearerChallengeOf } from './challenges.ts'
import type { Check } from './check.ts'
import { goodToken } from './conversation.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { initialize, NEWEST_LEGACY } from './messages.ts'
import { isGuarded, refusal } from './protection.ts'

const ATTACKER = 'attacker.example'

const REBINDING =
  'check Origin and Host before anything else and answer 403: a page whose name is rebound to this address can use the server otherwise (mcp-gatekit: allowedOrigins, allowedHosts)'

/** With the token where there is a good one: behind the gate it shows more. */
async function asAttacker(
  examination: Examination,
  headers: Readonly<Record<string, string>>,
  withToken: boolean,
): Promise<HttpExchange> {
  const token = withToken ? await goodToken(examination).catch(() => undefined) : undefined
  return await examination.post(initialize(NEWEST_LEGACY), { ...(token !== undefined && { token }), headers })
}

async function judgeServed(examination: Examination, seen: string): Promise<Finding> {
  if (examination.isLocal) return fail(seen, REBINDING)
  // A bearer token is never sent by itself: a page that has none gets nothing.
  return (await isGuarded(examination)) ? ok(`${seen}, to whom has a token`) : warn(seen, REBINDING)
}

/** Whether the challenge sends clients to a document of the attacker's. */
function namesAttacker(answer: HttpExchange): boolean {
  const named =
    bearerChallengeOf(answer.header('www-authenticate'))?.parameters.get('resource_metadata') ?? ''
  return URL.canParse(named) && new URL(named).hostname === ATTACKER
}

const FIXED_URL =
  'set the public URL of the server (mcp-gatekit: resource) instead of taking it from the request, and trust forwarded headers only behind a proxy that sets them'

export const ORIGINS: readonly Check[] = [
  {
    id: 'origin.foreign',
    title: 'A page of a stranger is refused',
    needs: ['server.endpoint'],
    async run(examination) {
      const answer = await asAttacker(examination, { origin: `https://${ATTACKER}` }, true)
      const seen = `${answer.status} to Origin: https://${ATTACKER}`
      if (answer.status === 401) return ok(`${seen}, as to everybody without a token`)
      return answer.succeeded ? await judgeServed(examination, seen) : ok(seen)
    },
  },
  {
    id: 'host.foreign',
    title: 'A foreign host name is refused',
    needs: ['server.endpoint'],
    async run(examination) {
      const port = examination.url.port === '' ? '' : `:${examination.url.port}`
      try {
        // Elsewhere than on this machine the host name may lead to somebody else: no token goes there.
        const answer = await asAttacker(examination, { host: `${ATTACKER}${port}` }, examination.isLocal)
        const seen = `${answer.status} to Host: ${ATTACKER}`
        if (namesAttacker(answer)) return warn(`${seen}, with a challenge that leads there`, FIXED_URL)
        return answer.succeeded ? await judgeServed(examination, seen) : ok(seen)
      } catch (error) {
        if (error instanceof NoResponseError && error.kind === 'closed')
          return ok('the connection was closed')
        throw error
      }
    },
  },
  {
    id: 'host.forwarded',
    title: 'Forwarded headers of a stranger change nothing',
    needs: ['challenge.resource-metadata'],
    async run(examination) {
      await refusal(examination)
      const answer = await asAttacker(
        examination,
        {
          'x-forwarded-host': ATTACKER,
          'x-forwarded-proto': 'https',
          forwarded: `host=${ATTACKER};proto=https`,
        },
        false,
      )
      return namesAttacker(answer)
        ? warn(`X-Forwarded-Host: ${ATTACKER} gets a challenge that leads there`, FIXED_URL)
        : ok('the challenge stays as it is')
    },
  },
]
