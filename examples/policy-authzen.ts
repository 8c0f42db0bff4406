import type { Authorize } from 'mcp-gatekit'

export interface DecisionPoint {
  /** The base URL of a decision point that implements the OpenID AuthZEN Authorization API 1.0. */
  readonly url: string
  /** The headers with the credentials of this server. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The methods of MCP, and the types of resources, by the kind of an operation. */
const KINDS = {
  tool: ['tools/call', 'tool'],
  prompt: ['prompts/get', 'prompt'],
  resource: ['resources/read', 'resource'],
  event: ['events/subscribe', 'event'],
} as const

/** Returns a policy that asks a decision point about each call. Entries of lists are shown to all users. */
export function askDecisionPoint({ url, headers }: DecisionPoint): Authorize {
  const endpoint = new URL('/access/v1/evaluation', url)
  return async ({ purpose, kind, name, auth }) => {
    if (purpose === 'list') return true
    const user = auth?.user?.id
    if (user === undefined) return false
    const [action, type] = KINDS[kind]
    const response = await fetch(endpoint, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        subject: { type: 'identity', id: user },
        action: { name: action },
        resource: { type, id: name },
        context: { agent: auth?.clientId },
      }),
      redirect: 'error',
      signal: AbortSignal.timeout(4_000),
    })
    // Only `true` permits. An error that is thrown here denies the call, too.
    const { decision } = (await response.json()) as { decision?: unknown }
    return response.ok && decision === true
  }
}
