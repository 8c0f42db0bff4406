import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { mcpHandler } from '../../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../../src/mcp/router/router.ts'
import type { VerifyToken } from '../../../../src/oauth/options.ts'
import { onNode } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import {
  BOTH_KINDS,
  bearer,
  call,
  eventsOf,
  LEGACY,
  type Listening,
  legacy,
  rpc,
  signalled,
} from '../../../support/mcp/wire.ts'

/** Settles when the tool `wait` may end, and when it has begun. */
let gate = signalled<string>()
let begun = signalled()

const router = KitMcpRouter.create()
  .tool('quick', { description: 'Responds at once' }, () => 'done')
  .tool('write', { description: 'Needs a scope', scopes: ['mcp:write'] }, () => 'written')
  .tool('wait', { description: 'Waits' }, async () => {
    begun.resolve()
    return await gate.promise
  })
  .tool('ask', { description: 'Asks for a name', scopes: ['mcp:write'] }, (_args, { inputRequired: ask }) =>
    ask({
      name: inputRequired.elicit({
        message: 'Your name?',
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
      }),
    }),
  )

const INITIALIZE = rpc('initialize', {
  protocolVersion: LEGACY,
  capabilities: { elicitation: {} },
  clientInfo: { name: 'test', version: '1' },
})

/** The tokens are of one user. `writer` has one more scope. */
const verifyToken: VerifyToken = ({ bearerToken }) => ({
  valid: true,
  user: { id: 'u1' },
  scopes: bearerToken === 'writer' ? ['mcp:read', 'mcp:write'] : ['mcp:read'],
})

/** A session on a server of its own. */
class Target {
  readonly #listening: Listening
  readonly #session: string

  private constructor(listening: Listening, session: string) {
    this.#listening = listening
    this.#session = session
  }

  static async start(): Promise<Target> {
    const adapter = createMcpAdapter({ router, oauth: oauth({ verifyToken }), sessions: true })
    const listening = await onNode(mcpHandler(adapter))
    const first = legacy(INITIALIZE, { ...bearer('writer'), 'mcp-protocol-version': undefined })
    const { headers } = await listening.send(first)
    return new Target(listening, headers.get('mcp-session-id') ?? '')
  }

  /** Sends a request of the session. Resolves as soon as the headers of the response have arrived. */
  async open(
    message: unknown,
    { method = 'POST', token = 'writer', ...headers }: Record<string, string> = {},
  ): Promise<IncomingMessage> {
    const outgoing = httpRequest(`${this.#listening.origin}/mcp`, {
      method,
      agent: false,
      headers: {
        accept: BOTH_KINDS,
        'content-type': 'application/json',
        'mcp-protocol-version': LEGACY,
        'mcp-session-id': this.#session,
        ...bearer(token),
        ...headers,
      },
    })
    outgoing.end(message === undefined ? undefined : JSON.stringify(message))
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return response
  }

  /** Sends a request of the session. @returns its status and body */
  async send(message: unknown, headers?: Record<string, string>) {
    const response = await this.open(message, headers)
    return { status: response.statusCode, headers: response.headers, text: await textOf(response) }
  }

  close(): Promise<void> {
    return this.#listening.close()
  }
}

async function textOf(stream: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += chunk
  return text
}

/** Returns the ids of the events in a stream. */
const idsOf = (text: string): string[] => [...text.matchAll(/^id: (\S+)$/gm)].map(([, id]) => id as string)

describe('mcp: responses in a session', () => {
  let target: Target
  beforeEach(async () => {
    gate = signalled()
    begun = signalled()
    target = await Target.start()
  })
  afterEach(async () => {
    gate.resolve('after the test')
    await target.close()
  })

  it('the response to a call is sent again after Last-Event-ID of its first event, and only then', async () => {
    const { text } = await target.send(call('quick'))
    const [first = '', second = ''] = idsOf(text)
    const again = await target.send(undefined, { method: 'GET', 'last-event-id': first })
    expect([again.status, eventsOf(again.text), idsOf(again.text)]).to.deep.equal([
      200,
      eventsOf(text),
      [second],
    ])
    const nothing = await target.send(undefined, { method: 'GET', 'last-event-id': second })
    expect([nothing.status, nothing.text]).to.deep.equal([200, ''])
  })

  it('the response to a call is not sent again to a token that lacks the scope of the call', async () => {
    const { text } = await target.send(call('write'))
    for (const id of idsOf(text)) {
      const again = await target.send(undefined, { method: 'GET', 'last-event-id': id, token: 'reader' })
      expect(again.status).to.equal(403)
    }
  })

  it('a question of a call is not sent again to a token that lacks the scope of the call', async () => {
    const response = await target.open(call('ask'))
    let text = ''
    for await (const chunk of response) {
      text += chunk
      if (eventsOf(text).length === 1) break
    }
    expect(eventsOf(text)[0].method).to.equal('elicitation/create')
    for (const id of idsOf(text)) {
      const again = await target.send(undefined, { method: 'GET', 'last-event-id': id, token: 'reader' })
      expect(again.status).to.equal(403)
    }
  })

  it('a call that takes long begins its stream before its result, and can be resumed', async () => {
    const response = await target.open(call('wait'))
    const [chunk] = (await once(response, 'data')) as [Buffer]
    expect(eventsOf(String(chunk))).to.deep.equal([])
    const [first = ''] = idsOf(String(chunk))
    response.destroy()
    gate.resolve('late')
    const resumed = await target.send(undefined, { method: 'GET', 'last-event-id': first })
    expect(eventsOf(resumed.text)[0].result.content[0].text).to.equal('late')
  })

  it('a call that its client cancels at once ends with an error', async () => {
    const sent = target.send(call('wait'))
    await begun.promise
    const canceled = await target.send({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 1 },
    })
    expect(canceled.status).to.equal(202)
    const { text } = await sent
    expect(eventsOf(text)[0].error).to.deep.equal({ code: -32_800, message: 'The request was canceled' })
    const again = await target.send(call('quick'))
    expect(eventsOf(again.text)[0].result.content[0].text).to.equal('done')
  })
})
