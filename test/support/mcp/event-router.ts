import { z } from 'zod'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'

const incident = { description: 'An incident was reported', payload: z.object({ id: z.number() }) }

/** A router whose event types differ in their deliveries, scopes, and arguments. */
export const eventRouter = KitMcpRouter.create()
  .event('incident', { ...incident, input: z.object({ severity: z.string().optional() }) })
  .event('secret', { ...incident, scopes: ['secrets'] })
  .event('polled', { ...incident, delivery: ['poll'] })

/** OAuth in which the token `ada` or `ada/scope+scope` belongs to the user ada. */
export const NAMED_USERS = {
  issuer: 'https://auth.example.com',
  verifyToken: ({ bearerToken = '' }: { bearerToken?: string | undefined }) => {
    const [id = '', scopes = ''] = bearerToken.split('/')
    return { valid: true as const, user: { id }, scopes: scopes.split('+').filter((scope) => scope !== '') }
  },
}
