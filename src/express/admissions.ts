import type { IncomingMessage } from 'node:http'
import type { Exchange } from '../mcp/exchange.ts'
import type { Gate } from '../oauth/gate.ts'

/** What one gate has let in, and what others before it have. */
interface Admitted {
  readonly exchange: Exchange
  /** Whether the gate belongs to an adapter; else it stands alone, made from OAuth options. */
  readonly ofAdapter: boolean
  readonly earlier: Admitted | undefined
}

/** By request, and not a property of it: each one added to Express's request object costs every request. */
const admitted = new WeakMap<IncomingMessage, Admitted>()

/** Remembers that a gate has let this request in. */
export function rememberAdmission(req: IncomingMessage, exchange: Exchange, ofAdapter: boolean): void {
  admitted.set(req, { exchange, ofAdapter, earlier: admitted.get(req) })
}

/** What `gate` has let in of this request. */
export function admissionBy(req: IncomingMessage, gate: Gate | undefined): Exchange | undefined {
  if (gate === undefined) return undefined
  for (let one = admitted.get(req); one !== undefined; one = one.earlier) {
    if (one.exchange.gate === gate) return one.exchange
  }
  return undefined
}

/** What `mcpAuth(oauthOptions)` has let in, for an adapter that has no OAuth of its own. */
export function admissionByOptions(req: IncomingMessage): Exchange | undefined {
  for (let one = admitted.get(req); one !== undefined; one = one.earlier) {
    if (!one.ofAdapter) return one.exchange
  }
  return undefined
}
