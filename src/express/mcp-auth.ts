import type { ServerResponse } from 'node:http'
import type { Exchange } from '../mcp/exchange.ts'
import type { McpIncoming } from '../mcp/incoming.ts'
import { CLIENT_GONE } from '../mcp/rpc.ts'
import type { Admission, McpService } from '../mcp/service.ts'
import type { Answer } from '../oauth/answer.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'
import { notFound } from '../oauth/protected-resource.ts'
import { admissionBy, admit } from './admissions.ts'
import {
  holdsMessages,
  isPreflight,
  NodeIncoming,
  type NodeMiddleware,
  type NodeRequest,
} from './node-http.ts'
import { writeAnswer } from './node-response.ts'
import { onceClosed } from './response-close.ts'
import { type GateTarget, resolveTarget } from './target.ts'

/**
 * Requires a valid bearer token (RFC 6750), whatever serves the route behind it. The outcome is on
 * `req.auth`, in the shape of the official SDK's `AuthInfo` plus `user`. A CORS preflight passes.
 *
 * For an adapter it judges the endpoint's scopes; those of the operation are judged by `mcpHandler`,
 * which does not verify the token again.
 * @param target OAuth options, or what `KitMcpServer…build()` or `createMcpAdapter()` returned.
 * @throws {KitMcpConfigError} for wrong options, or an adapter without OAuth.
 */
export function mcpAuth(target: GateTarget): NodeMiddleware {
  const { gate, service } = resolveTarget(target)
  const { trustProxy } = gate.options
  return function mcpAuth(req, res, next = () => writeAnswer(req, res, notFound())) {
    if (isPreflight(req) || admissionBy(req, gate) !== undefined) return next()
    const incoming = new NodeIncoming(req, res, trustProxy)
    const admitting = service === undefined ? askGate(gate, incoming) : service.admit(incoming)
    admitting
      .then((admission) => {
        const answer =
          'answer' in admission ? admission.answer : judge(gate, service, admission.exchange, incoming, req)
        if (answer instanceof Promise) return answer.then((given) => writeAnswer(req, res, given))
        if (answer !== undefined) return writeAnswer(req, res, answer)
        const { exchange } = admission as { exchange: Exchange }
        admit(req, exchange.auth as AuthInfo, exchange, service !== undefined)
        if (exchange.observation !== undefined) concludeWithResponse(exchange, req, res)
        next()
      })
      // Only what stands behind can have thrown here: Express catches that itself, a bare server does not.
      .catch((cause: unknown) => {
        // An answer that has begun cannot be mended; left open, the client would wait for its end for ever.
        if (res.headersSent) res.destroy()
        else writeAnswer(req, res, gate.answer({ outcome: 'failed', cause }, incoming))
      })
  }
}

async function askGate(gate: Gate, incoming: McpIncoming): Promise<Admission> {
  const decision = await gate.authenticate(incoming)
  if (decision.outcome !== 'accepted') return { answer: gate.answer(decision, incoming) }
  return { exchange: { gate, auth: decision.auth, context: decision.context, observation: undefined } }
}

/** The endpoint's scopes decide; the operation's are named with them where they can be seen. */
function judge(
  gate: Gate,
  service: McpService | undefined,
  exchange: Exchange,
  incoming: McpIncoming,
  req: NodeRequest,
): Promise<Answer> | undefined {
  if (exchange.auth === undefined || gate.permits(exchange.auth.scopes)) return undefined
  return refuse(gate, exchange, incoming, service?.operationScopes(visibleMessages(incoming, req)) ?? [])
}

async function refuse(
  gate: Gate,
  { observation }: Exchange,
  incoming: McpIncoming,
  operation: readonly string[],
): Promise<Answer> {
  const refusal = await gate.limited(gate.insufficientScope(operation), incoming)
  observation?.decided(refusal)
  return gate.answer(refusal, incoming)
}

function visibleMessages(incoming: McpIncoming, req: NodeRequest): readonly unknown[] {
  if (holdsMessages(req)) return [req.body].flat()
  const name = decodedHeader(incoming.header('mcp-name'))
  return [{ method: incoming.header('mcp-method'), params: { name, uri: name } }]
}

/** A header value of 2026-07-28: what is no plain ASCII comes as `=?base64?…?=`. */
function decodedHeader(value: string | undefined): string | undefined {
  const encoded = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(value ?? '')?.[1]
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8')
}

/** Where something else than `mcpHandler` serves the route, the response ends what telemetry saw of it. */
function concludeWithResponse({ observation }: Exchange, req: NodeRequest, res: ServerResponse): void {
  onceClosed(req, res, () => {
    if (observation?.isLeftOpen !== true) return
    observation.accepted()
    observation.completed(res.headersSent ? res.statusCode : CLIENT_GONE.status)
  })
}
