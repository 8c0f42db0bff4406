import { z } from 'zod'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'

/** Event types that differ in their deliveries, scopes, and arguments. */
export const incidentRouter = KitMcpRouter.create()
  .event('incident', {
    description: 'An incident was reported',
    input: z.object({ severity: z.string().optional() }).loose(),
    payload: z.object({ id: z.number() }).loose(),
  })
  .event('secret', {
    description: 'A secret was read',
    payload: z.object({ id: z.number() }),
    scopes: ['admin'],
  })
  .event('polled', {
    description: 'A page was changed',
    payload: z.object({ id: z.number() }),
    delivery: ['poll'],
  })
