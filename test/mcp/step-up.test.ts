import { expect } from 'chai'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { ENTRY_POINTS } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, LEGACY, legacy, modern, rpc } from '../support/mcp/wire.ts'

/** The token has these scopes. Three of them cannot be in a challenge, and the last one has no place in it. */
const GRANTED = ['notes:read', 'not a scope', 'q"', 'offline_access', 'mcp:read', 'x'.repeat(4_090)]

const router = KitMcpRouter.create().tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')

for (const [stepUp, scope] of [
  [undefined, 'mcp:read mcp:write'],
  ['required', 'mcp:read mcp:write'],
  ['keep-granted', 'mcp:read mcp:write notes:read'],
] as const)
  for (const entryPoint of ENTRY_POINTS)
    it(`with stepUp ${stepUp}, the 403 of ${entryPoint.name} names the scopes ${scope}`, async () => {
      const served = await entryPoint.serve({
        router,
        sessions: true,
        oauth: oauth({
          stepUp,
          scopes: ['mcp:read'],
          verifyToken: () => ({ valid: true, user: { id: 'ada' }, scopes: GRANTED }),
        }),
      })
      try {
        const clientInfo = { name: 'c', version: '1' }
        const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo }
        const { headers } = await served.send(legacy(rpc('initialize', params), bearer('x')))
        const session = headers.get('mcp-session-id')
        const inSession = { ...bearer('x'), ...(session !== null && { 'mcp-session-id': session }) }
        for (const request of [
          legacy(call('write'), bearer('x')),
          legacy(call('write'), inSession),
          modern('tools/call', { name: 'write' }, bearer('x')),
        ]) {
          const { status, headers } = await served.send(request)
          const challenge = headers.get('www-authenticate') ?? ''
          expect([status, /scope="(?<scope>[^"]*)"/.exec(challenge)?.groups?.scope]).to.deep.equal([
            403,
            scope,
          ])
        }
      } finally {
        await served.close()
      }
    })
