import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import type { JwtVerifierOptions } from '../../src/oauth/verifiers/jwt-options.ts'
import { listen } from '../support/listen.ts'
import { TaskClient } from '../support/mcp/tasks.ts'
import { bearer, beginSession, legacy, rpc, send, type WireRequest } from '../support/mcp/wire.ts'
import { AUDIENCE, type ClaimChanges, ISSUER, signToken } from '../support/tokens.ts'

const SECRET = Buffer.from('a shared secret of more than thirty-two bytes')

const router = KitMcpRouter.create()
  .tool('ping', { description: 'x', limits: { calls: { max: 1, perSeconds: 60, by: 'user' } } }, () => 'pong')
  .tool('work', { description: 'x', task: 'optional' }, () => 'the result')
  .tool('ask', { description: 'x' }, (_args, { inputRequired: ask, state }) =>
    state === undefined
      ? ask(
          {
            name: inputRequired.elicit({
              message: 'Name?',
              requestedSchema: { type: 'object', properties: {} },
            }),
          },
          'kept',
        )
      : `state: ${state}`,
  )

/** Starts a server, and returns a client for each of two users of one client whose tokens have these claims. */
async function usersWith(claims: ClaimChanges, mapUser: JwtVerifierOptions<unknown>['mapUser']) {
  const options = { issuer: ISSUER, audience: AUDIENCE, secret: SECRET.toString() }
  const verifyToken = jwtVerifier({ ...options, ...(mapUser !== undefined && { mapUser }) })
  const adapter = createMcpAdapter({
    router,
    sessions: true,
    oauth: { issuer: ISSUER, resource: AUDIENCE, verifyToken },
  })
  const { port } = await listen(mcpHandler(adapter))
  const userOf = async (jti: string) => {
    const headers = bearer(await signToken(SECRET, { client_id: 'web', jti, ...claims }))
    const ask = (request: WireRequest, more: Record<string, string> = {}) =>
      send(port, { ...request, headers: { ...request.headers, ...headers, ...more } })
    return { ask, tasks: new TaskClient({ send: (request) => send(port, request) }, headers) }
  }
  return [await userOf('one'), await userOf('other')] as const
}

const CLAIMS: Readonly<Record<string, ClaimChanges>> = {
  'without sub': { sub: undefined },
  'with an empty sub': { sub: '' },
}

const MAPPERS: Readonly<Record<string, JwtVerifierOptions<unknown>['mapUser']>> = {
  'the default user': undefined,
  'an id of String(sub)': ({ sub }) => ({ id: String(sub) }),
  'an id of a template': ({ sub }) => ({ id: `${sub}` }),
  'a user without an id': ({ email }) => ({ email }),
  'the text of sub as the user': ({ sub }) => String(sub),
}

describe('attacks by users whose tokens do not name them', () => {
  for (const [which, claims] of Object.entries(CLAIMS))
    for (const [what, mapUser] of Object.entries(MAPPERS)) {
      it(`tokens ${which}, and ${what}: the session of another user: 404; the same token can use it`, async () => {
        const [one, other] = await usersWith(claims, mapUser)
        const session = await beginSession({ send: one.ask })
        expect((await one.ask(legacy(rpc('ping')), session)).status).to.equal(200)
        expect((await other.ask(legacy(rpc('ping')), session)).status).to.equal(404)
      })

      it(`tokens ${which}, and ${what}: the task of another user: -32602; the same token can read it`, async () => {
        const [one, other] = await usersWith(claims, mapUser)
        const id = await one.tasks.start('work')
        expect((await one.tasks.settled(id)).status).to.equal('completed')
        expect((await other.tasks.error('tasks/get', { taskId: id })).code).to.equal(-32_602)
      })

      it(`tokens ${which}, and ${what}: the state of a call of another user: -32602; the same token can use it`, async () => {
        const [one, other] = await usersWith(claims, mapUser)
        const { requestState } = await one.tasks.call('ask')
        const params = { name: 'ask', arguments: {}, requestState, inputResponses: {} }
        expect((await other.tasks.error('tools/call', params)).code).to.equal(-32_602)
        expect((await one.tasks.result('tools/call', params)).content[0].text).to.equal('state: kept')
      })

      it(`tokens ${which}, and ${what}: calls of another user up to the limit: the limit of each user is counted by itself`, async () => {
        const [one, other] = await usersWith(claims, mapUser)
        for (const { tasks } of [one, other]) {
          expect((await tasks.call('ping')).isError).to.equal(undefined)
          expect((await tasks.call('ping')).isError).to.equal(true)
        }
      })
    }
})
