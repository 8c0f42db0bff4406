import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler, type NodeMiddleware } from '../../src/index.ts'
import type { VerifyTokenInput } from '../../src/oauth/gate-values.ts'
import { ENTRY_POINTS, onExpress, type Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy, modern, type WireRequest } from '../support/mcp/wire.ts'

/** An adapter that counts what the application is asked. */
function counting() {
  const calls = { context: 0, verify: 0, verified: 0 }
  const order: string[] = []
  const seen: unknown[] = []
  const router = KitMcpRouter.create()
    .context((): { user?: unknown } => {
      calls.context++
      order.push('context')
      return {}
    })
    .tool('whoami', { description: 'Says who is calling' }, (_args, context) => {
      order.push('tool')
      seen.push(context.context)
      const { auth, request } = context
      return { user: context.context.user, auth: { ...auth }, token: auth?.token, url: request.url }
    })
    .tool('write', { description: 'Needs more', scopes: ['mcp:write'] }, () => 'written')
  const setup = {
    router,
    oauth: oauth({
      verifyToken: async (input: VerifyTokenInput<{ user?: unknown }>) => {
        calls.verify++
        order.push('verify')
        seen.push(input.context, input.context.context)
        return await oauth().verifyToken(input)
      },
      onVerified: ({ context, user }) => {
        calls.verified++
        order.push('verified')
        seen.push(context, context.context)
        context.context.user = user
      },
    }),
  }
  return { calls, order, seen, setup }
}

const whoami = legacy(call('whoami'), bearer('reader'))

async function withServed<T>(serving: Promise<Served>, use: (served: Served) => Promise<T>): Promise<T> {
  const served = await serving
  try {
    return await use(served)
  } finally {
    await served.close()
  }
}

const answerOf = async (served: Served, request: WireRequest = whoami) => {
  const { message, status } = await served.send(request)
  return status === 200 ? JSON.parse(message.result.content[0].text) : status
}

describe('mcp: verification', () => {
  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      it('context, verifyToken, and onVerified are called once per request, in this order', async () => {
        const { calls, order, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          await answerOf(served)
          expect(calls).to.deep.equal({ context: 1, verify: 1, verified: 1 })
          expect(order).to.deep.equal(['context', 'verify', 'verified', 'tool'])
          await served.send(modern('tools/call', { name: 'whoami' }, bearer('reader')))
          expect(calls).to.deep.equal({ context: 2, verify: 2, verified: 2 })
        })
      })

      it('verifyToken, onVerified, and the tool get the same context', async () => {
        const { seen, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          const { user, auth, token } = await answerOf(served)
          expect(user).to.deep.equal({ id: 'u1' })
          expect(auth).to.deep.include({ scopes: ['mcp:read'], user: { id: 'u1' }, clientId: '' })
          expect(token).to.equal('reader')
        })
        const [asked, askedApp, verified, verifiedApp, toolApp] = seen
        expect(verified).to.equal(asked)
        expect(verifiedApp).to.equal(askedApp)
        expect(toolApp).to.equal(askedApp)
      })

      it('every request gets a new context', async () => {
        const { seen, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          await Promise.all([answerOf(served), answerOf(served)])
        })
        const apps = seen.filter((one) => (one as { user?: unknown }).user !== undefined)
        expect(new Set(apps).size).to.equal(2)
      })

      it('without a token, context and verifyToken are called once, and onVerified is not', async () => {
        const { calls, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          expect(await answerOf(served, legacy(call('whoami')))).to.equal(401)
          expect(calls).to.deep.equal({ context: 1, verify: 1, verified: 0 })
        })
      })

      it('a call that has to step up is verified once', async () => {
        const { calls, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          expect(await answerOf(served, legacy(call('write'), bearer('reader')))).to.equal(403)
          expect(calls).to.deep.equal({ context: 1, verify: 1, verified: 1 })
        })
      })

      it('a preflight calls neither context nor verifyToken', async () => {
        const { calls, setup } = counting()
        await withServed(entryPoint.serve(setup), async (served) => {
          const headers = { origin: 'http://localhost:1', 'access-control-request-method': 'POST' }
          expect((await served.send({ method: 'OPTIONS', headers })).status).to.equal(204)
          expect(calls).to.deep.equal({ context: 0, verify: 0, verified: 0 })
        })
      })

      it('verifyToken gets the request without its body', async () => {
        const { setup } = counting()
        let asked: Request | undefined
        const verifyToken = (input: VerifyTokenInput) => {
          asked = input.request
          return oauth().verifyToken(input)
        }
        await withServed(
          entryPoint.serve({ ...setup, oauth: { ...setup.oauth, verifyToken } }),
          async (served) => {
            const { url } = await answerOf(served, { ...whoami, path: '/mcp?tenant=a' })
            expect(url).to.equal(`${served.origin}/mcp?tenant=a`)
            expect(asked).to.be.instanceOf(Request)
            expect(asked?.url).to.equal(url)
            expect(asked?.method).to.equal('POST')
            expect(asked?.headers.get('authorization')).to.equal('Bearer reader')
          },
        )
      })
    })
  }
})

describe('mcp: mcpHandler behind something else', () => {
  it('mcpHandler verifies the token if the mcpAuth in front belongs to another adapter', async () => {
    const mine = counting()
    const other = counting()
    const serving = onExpress(
      mcpAuth(createMcpAdapter(other.setup)),
      mcpHandler(createMcpAdapter(mine.setup)),
    )
    await withServed(serving, async (served) => {
      await answerOf(served)
      expect(other.calls).to.deep.equal({ context: 1, verify: 1, verified: 1 })
      expect(mine.calls).to.deep.equal({ context: 1, verify: 1, verified: 1 })
    })
  })

  it('mcpHandler rejects a token that only the mcpAuth of another adapter accepts', async () => {
    const strict = counting()
    const adapter = createMcpAdapter({
      ...strict.setup,
      oauth: { ...strict.setup.oauth, verifyToken: () => undefined },
    })
    const serving = onExpress(mcpAuth(createMcpAdapter(counting().setup)), mcpHandler(adapter))
    await withServed(serving, async (served) => expect(await answerOf(served)).to.equal(401))
  })

  it('mcpHandler verifies the token if the mcpAuth in front has its own OAuth options', async () => {
    const mine = counting()
    const serving = onExpress(mcpAuth(oauth()), mcpHandler(createMcpAdapter(mine.setup)))
    await withServed(serving, async (served) => {
      await answerOf(served)
      expect(mine.calls).to.deep.equal({ context: 1, verify: 1, verified: 1 })
    })
  })

  it('a preflight that passed mcpAuth does not count as verified', async () => {
    const mine = counting()
    const adapter = createMcpAdapter(mine.setup)
    /** Turns a preflight into a call once mcpAuth has let it pass. */
    const disguise: NodeMiddleware = (req, _res, next) => {
      if (req.method === 'OPTIONS') req.method = 'POST'
      next?.()
    }
    const serving = onExpress(mcpAuth(adapter), disguise, mcpHandler(adapter))
    await withServed(serving, async (served) => {
      const headers = { origin: 'http://localhost:1', 'access-control-request-method': 'POST' }
      const { authorization: _none, ...rest } = whoami.headers as Record<string, string>
      const answer = await served.send({ ...whoami, method: 'OPTIONS', headers: { ...rest, ...headers } })
      expect(answer.status).to.equal(401)
      expect(mine.calls.verify).to.equal(1)
    })
  })

  it('mcpAuth authenticates OPTIONS that is not a preflight', async () => {
    const adapter = createMcpAdapter(counting().setup)
    await withServed(onExpress(mcpAuth(adapter), mcpHandler(adapter)), async (served) => {
      expect((await served.send({ method: 'OPTIONS' })).status).to.equal(401)
      expect((await served.send({ method: 'OPTIONS', headers: bearer('reader') })).status).to.equal(204)
    })
  })
})
