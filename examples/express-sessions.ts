import express, { type Express, type RequestHandler } from 'express'
import { authOf, type JwtUser, type KitTelemetryManager, mcpAuth, type OAuthOptions } from 'mcp-gatekit'

/** Runs every request in its own session, so that its events contain the user and the request. */
export function sessionPerRequest(telemetry: KitTelemetryManager): RequestHandler {
  return (req, res, next) => {
    const session = telemetry.session().attributes({ method: req.method, path: req.path })
    const auth = authOf<JwtUser>(req)
    if (auth?.user?.id !== undefined) session.actor('user', auth.user.id, { client: auth.clientId })
    res.once('close', () => {
      session.emit('request.completed', { attributes: { status: res.statusCode } })
      void session.end()
    })
    session.run(next).catch(next)
  }
}

/** Creates an API with a gate. The gate comes first, so that the session can read `req.auth`. */
export function createApp(telemetry: KitTelemetryManager, oauth: OAuthOptions): Express {
  const app = express()
  app.use(mcpAuth(oauth), sessionPerRequest(telemetry))
  app.get('/invoices/:id', async (req, res) => {
    const invoice = await findInvoice(req.params.id)
    // The event belongs to the current session, also after an await.
    telemetry.emit('invoice.read', { attributes: { invoice: invoice.id } })
    res.json(invoice)
  })
  return app
}

async function findInvoice(id: string): Promise<{ id: string; cents: number }> {
  return { id, cents: 1200 }
}
