import express, { type Express } from 'express'
import { type Authorize, createMcpAdapter, KitMcpRouter, mcpServer, type OAuthOptions } from 'mcp-gatekit'
import { z } from 'zod'

/** The tools that each role may use. A role without an entry may not use any. */
const TOOLS = new Map([
  ['viewer', ['list_invoices']],
  ['accountant', ['list_invoices', 'pay_invoice']],
])

/** Permits the tools of the roles in the claim `roles`. `jwtVerifier` puts the claims of the token into `user`. */
const byRole: Authorize = ({ name, auth }) => {
  const roles: unknown = auth?.user?.claims?.roles
  // A provider may send one role as a string.
  return [roles].flat().some((role) => TOOLS.get(String(role))?.includes(name))
}

/** Creates an Express application whose tools depend on the role of the user. */
export function createInvoicesServer(oauth: OAuthOptions): Express {
  const router = KitMcpRouter.create()
    .tool('list_invoices', { description: 'Lists the open invoices' }, () => ['2026-17', '2026-18'])
    .tool(
      'pay_invoice',
      { description: 'Pays an invoice', input: z.object({ invoice: z.string() }) },
      ({ invoice }) => `Paid ${invoice}`,
    )
  return express().use(mcpServer(createMcpAdapter({ router, oauth, authorize: byRole })))
}
