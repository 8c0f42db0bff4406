import express, { type Express } from 'express'
import { authOf, type JwtUser, type KitTelemetryManager, mcpAuth, type OAuthOptions } from 'mcp-gatekit'
import { httpTelemetry } from 'mcp-gatekit/telemetry'

/** Creates an API with a gate. Each request has a session, with the user as soon as the gate has verified the token. */
export function createApp(telemetry: KitTelemetryManager, oauth: OAuthOptions): Express {
  const app = express()
  app.use(mcpAuth(oauth), httpTelemetry(telemetry, { actor: actorOf }))
  app.get('/invoices/:id', async (req, res) => {
    const invoice = await findInvoice(req.params.id)
    // The event belongs to the current session, also after an await.
    telemetry.emit('invoice.read', { attributes: { invoice: invoice.id } })
    res.json(invoice)
  })
  return app
}

function actorOf(req: express.Request) {
  const auth = authOf<JwtUser>(req)
  return auth?.user && { type: 'user', id: auth.user.id, tags: { client: auth.clientId } }
}

async function findInvoice(id: string): Promise<{ id: string; cents: number }> {
  return { id, cents: 1200 }
}
