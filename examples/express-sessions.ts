import express, { type Express, type RequestHandler } from 'express'
import {
  type AuthInfo,
  type JwtUser,
  type KitTelemetryManager,
  mcpAuth,
  type OAuthOptions,
} from 'mcp-gatekit'

/** Runs every request in a session of its own: whatever is emitted while it is handled says who asked, and for what. */
export function sessionPerRequest(telemetry: KitTelemetryManager): RequestHandler {
  return (req, res, next) => {
    const session = telemetry.session().attributes({ method: req.method, path: req.path })
    const { auth } = req as unknown as { auth?: AuthInfo<JwtUser> }
    if (auth?.user?.id !== undefined) session.actor('user', auth.user.id, { client: auth.clientId })
    res.once('close', () => {
      session.emit('request.completed', { attributes: { status: res.statusCode } })
      void session.end()
    })
    session.run(next).catch(next)
  }
}

/** An API behind the gate. The gate comes first, so that the session finds `req.auth`. */
export function createApp(telemetry: KitTelemetryManager, oauth: OAuthOptions): Express {
  const app = express()
  app.use(mcpAuth(oauth), sessionPerRequest(telemetry))
  app.get('/invoices/:id', async (req, res) => {
    const invoice = await findInvoice(req.params.id)
    // No session is passed along: it is the ambient one, after an await as well.
    telemetry.emit('invoice.read', { attributes: { invoice: invoice.id } })
    res.json(invoice)
  })
  return app
}

async function findInvoice(id: string): Promise<{ id: string; cents: number }> {
  return { id, cents: 1200 }
}
