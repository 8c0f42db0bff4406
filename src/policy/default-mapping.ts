import type { PolicyQuery } from '../mcp/router/authorize.ts'
import { isRecord } from '../options/value-kinds.ts'
import type { AuthZenEvaluation } from './evaluation.ts'

const ACTIONS: Readonly<Record<PolicyQuery['kind'], { readonly name: string }>> = {
  tool: { name: 'tools/call' },
  prompt: { name: 'prompts/get' },
  resource: { name: 'resources/read' },
  event: { name: 'events/subscribe' },
}

/**
 * The default mapping of the COAZ binding for MCP: the user of the token, the method, and the operation that it names. The
 * question about an entry of a list is the one about using it. A resource template in a list has no URI, so its name is sent.
 * @throws if the request has no token, or a token without a subject.
 * @see https://openid.github.io/authzen/authzen-coaz-mcp-binding-1_0.html
 */
export function defaultMapping({ kind, name, uri, auth }: PolicyQuery): AuthZenEvaluation {
  return {
    subject: { type: 'identity', id: subjectOf(auth?.user) },
    action: ACTIONS[kind],
    resource:
      kind !== 'resource'
        ? { type: kind, id: name }
        : uri === undefined
          ? { type: 'resource_template', id: name }
          : { type: 'resource', id: uri },
    context: auth === undefined || auth.clientId === '' ? {} : { agent: auth.clientId },
  }
}

/** Returns the claim `sub`, as the verifiers of this package and common functions set it. */
function subjectOf(user: unknown): string {
  const { claims, sub, id }: Readonly<Record<string, unknown>> = isRecord(user) ? user : { id: user }
  const known = [isRecord(claims) ? claims.sub : undefined, sub, id].find(
    (value) => value !== undefined && value !== null,
  )
  if (typeof known === 'string' && known !== '') return known
  if (typeof known === 'number' || typeof known === 'bigint') return String(known)
  throw new TypeError('authzen needs the subject of a token. Set the option mapping for requests without one')
}
