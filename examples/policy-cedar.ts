// Cedar policies in the process of the server. Cedar is compiled to WebAssembly, so no decision point is needed:
//
//     npm install @cedar-policy/cedar-wasm
import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/nodejs'
import express, { type Express } from 'express'
import { type Authorize, createMcpAdapter, KitMcpRouter, mcpServer, type OAuthOptions } from 'mcp-gatekit'
import { z } from 'zod'

const POLICIES = `
  // All users see the tools, and look up payments.
  permit (principal, action == Action::"list", resource);
  permit (principal, action == Action::"call", resource == Tool::"find_payment");

  // The support team refunds small amounts, and the finance team refunds all.
  permit (principal, action == Action::"call", resource == Tool::"refund")
  when { principal.team == "support" && context.amount <= 100 };
  permit (principal, action == Action::"call", resource == Tool::"refund")
  when { principal.team == "finance" };

  // Users do not refund their own payments.
  forbid (principal, action == Action::"call", resource == Tool::"refund")
  when { context.customer == principal.email };
`

// The policies are parsed once. A mistake in them ends the process here.
const parsed = preparsePolicySet('payments', { staticPolicies: POLICIES })
if (parsed.type === 'failure') throw new Error(parsed.errors.map(({ message }) => message).join('\n'))

/** The payments by id. The policies use this record, because a client could send any e-mail address. */
const payments = new Map([
  ['p1', { customer: 'kim@example.com', amount: 800 }],
  ['p2', { customer: 'ada@example.com', amount: 90 }],
])

/** Single values, because objects from outside could stand for any entity: `{"__entity": …}`. */
function refundContext(args: Readonly<Record<string, unknown>> = {}): { amount: number; customer: string } {
  return { amount: Number(args.amount), customer: payments.get(String(args.payment))?.customer ?? '' }
}

const byCedar: Authorize = ({ purpose, name, args, auth }) => {
  const { id, claims = {} } = auth?.user ?? {}
  const principal = { type: 'User', id: String(id) }
  const answer = statefulIsAuthorized({
    preparsedPolicySetId: 'payments',
    principal,
    action: { type: 'Action', id: purpose },
    resource: { type: 'Tool', id: name },
    context: purpose === 'call' && name === 'refund' ? refundContext(args) : {},
    entities: [
      { uid: principal, attrs: { team: String(claims.team), email: String(claims.email) }, parents: [] },
    ],
  })
  // An error denies, and telemetry records it.
  if (answer.type === 'failure') throw new Error(answer.errors.map(({ message }) => message).join('\n'))
  const { decision, diagnostics } = answer.response
  // A `forbid` that cannot be evaluated does not deny by itself.
  return decision === 'allow' && diagnostics.errors.length === 0
}

/** Creates an Express application whose tools are permitted by Cedar policies. */
export function createPaymentsServer(oauth: OAuthOptions): Express {
  const router = KitMcpRouter.create()
    .tool(
      'find_payment',
      { description: 'Finds a payment', input: z.object({ payment: z.string() }) },
      ({ payment }) => `${payments.get(payment)?.amount ?? 0} EUR`,
    )
    .tool(
      'refund',
      {
        description: 'Refunds a payment',
        input: z.object({ payment: z.string(), amount: z.int().positive() }),
      },
      ({ payment, amount }) => `Refunded ${amount} of ${payment}`,
    )
  return express().use(mcpServer(createMcpAdapter({ router, oauth, authorize: byCedar })))
}
