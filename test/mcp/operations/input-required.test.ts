import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { EncryptJWT } from 'jose'
import { z } from 'zod'
import { createMcpAdapter, type KitContext, KitMcpRouter, mcpHandler } from '../../../src/index.ts'
import { RequestStates } from '../../../src/mcp/operations/request-state.ts'
import type { VerifiedToken, VerifyToken } from '../../../src/oauth/options.ts'
import { CLIENT_KINDS, type Connected } from '../../support/mcp/clients.ts'
import { onNode, serving, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, LEGACY, modern } from '../../support/mcp/wire.ts'

const CONFIRM = z.object({ sure: z.boolean() })
const confirm = (message: string) => ({
  confirm: inputRequired.elicit({ message, requestedSchema: CONFIRM }),
})

/** Asks twice, and keeps the answers. */
function twice(what: string, context: KitContext) {
  const state = context.state as { first: boolean } | undefined
  const sure = context.accepted('confirm', CONFIRM)?.sure
  if (sure === undefined) return context.inputRequired(confirm(`${what}: sure?`))
  if (state === undefined) return context.inputRequired(confirm(`${what}: really?`), { first: sure })
  return `${what}: ${state.first} then ${sure}`
}

const router = KitMcpRouter.create()
  .tool('wipe', { description: 'Asks twice', input: z.object({ what: z.string() }) }, ({ what }, context) =>
    twice(what, context),
  )
  .tool('other', { description: 'Asks twice' }, (_args, context) => twice('other', context))
  .tool(
    'checked',
    { description: 'Has an output', output: z.object({ sure: z.boolean() }) },
    (_args, { accepted, inputRequired }) => {
      return accepted('confirm', CONFIRM) ?? inputRequired(confirm('sure?'))
    },
  )
  .tool('sdk', { description: 'Made with the SDK' }, (_args, { state }) =>
    state === undefined ? inputRequired({ requestState: 'plain' }) : `state ${state}`,
  )
  .tool('empty', { description: 'Asks nothing' }, (_args, context) => context.inputRequired({}))
  .tool('folders', { description: 'Asks where it can' }, (_args, context) => {
    if (context.clientCapabilities?.roots === undefined) return 'cannot ask'
    const { folders } = context.inputResponses
    return folders ?? context.inputRequired({ folders: inputRequired.listRoots() })
  })
  .prompt('wipe', {}, (_args, context) => twice('prompt', context))
  .resource('wipe', { uri: 'notes://wipe' }, (_uri, context) => twice('resource', context))

/** Answers forms in turn, and gathers what was asked. */
function answering(answers: object[], asked: string[]) {
  return (client: any) => {
    client.setRequestHandler('elicitation/create', (request: { params: { message: string } }) => {
      asked.push(request.params.message)
      return answers.shift()
    })
  }
}

const accept = (sure: boolean) => ({ action: 'accept', content: { sure } })

describe('mcp: input that is required', () => {
  const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() }))))

  describe('by a v2 client, 2026-07-28', () => {
    let asked: string[]
    let connected: Connected
    const connect = async (...answers: object[]) => {
      asked = []
      connected = await (CLIENT_KINDS[1] as (typeof CLIENT_KINDS)[number]).connect(served().origin, {
        token: 'reader',
        capabilities: { elicitation: {} },
        prepare: answering(answers, asked),
      })
      return connected.client
    }
    afterEach(async () => connected.close())

    it('input is requested round by round', async () => {
      const client = await connect(accept(true), accept(false))
      const result = await client.callTool({ name: 'wipe', arguments: { what: 'notes' } })
      expect(result.content[0].text).to.equal('notes: true then false')
      expect(asked).to.deep.equal(['notes: sure?', 'notes: really?'])
    })

    it('input is requested again if it does not match', async () => {
      const client = await connect(
        { action: 'decline' },
        { action: 'accept', content: {} },
        accept(true),
        accept(true),
      )
      const result = await client.callTool({ name: 'wipe', arguments: { what: 'notes' } })
      expect(result.content[0].text).to.equal('notes: true then true')
      expect(asked).to.have.length(4)
    })

    it('prompts and resources can request input', async () => {
      const client = await connect(accept(true), accept(true), accept(false), accept(false))
      const prompt = await client.getPrompt({ name: 'wipe' })
      expect(prompt.messages[0].content.text).to.equal('prompt: true then true')
      const resource = await client.readResource({ uri: 'notes://wipe' })
      expect(resource.contents[0].text).to.equal('resource: false then false')
    })

    it('a tool with an output schema can request input', async () => {
      const client = await connect(accept(true))
      const result = await client.callTool({ name: 'checked', arguments: {} })
      expect(result.structuredContent).to.deep.equal({ sure: true })
    })

    it('a round may have only a state, also one created with the SDK', async () => {
      const client = await connect()
      const result = await client.callTool({ name: 'sdk', arguments: {} })
      expect(result.content[0].text).to.equal('state plain')
    })

    it('input is requested from a client with the capability', async () => {
      const client = await connect()
      const { content } = await client.callTool({ name: 'folders', arguments: {} })
      expect(content[0].text).to.equal('cannot ask')
      const roots = [{ uri: 'file:///notes', name: 'notes' }]
      const able = await (CLIENT_KINDS[1] as (typeof CLIENT_KINDS)[number]).connect(served().origin, {
        token: 'reader',
        capabilities: { roots: {} },
        prepare: (one) => one.setRequestHandler('roots/list', () => ({ roots })),
      })
      const asked = await able.client.callTool({ name: 'folders', arguments: {} })
      expect(JSON.parse(asked.content[0].text)).to.deep.equal({ roots })
      await able.close()
    })

    it('inputRequired() without requests and state throws', async () => {
      const client = await connect()
      const result = await client.callTool({ name: 'empty', arguments: {} })
      expect(result.isError).to.equal(true)
      expect(result.content[0].text).to.match(/^The tool failed\. Reference: /)
    })
  })

  for (const { name, revision, connect } of CLIENT_KINDS) {
    if (revision !== LEGACY) continue
    it(`input cannot be requested from a ${name} without a session`, async () => {
      const { client, close } = await connect(served().origin, {
        token: 'reader',
        capabilities: { elicitation: {} },
      })
      const result = await client.callTool({ name: 'wipe', arguments: { what: 'notes' } })
      expect(result.isError).to.equal(true)
      expect(result.content[0].text).to.contain('did not declare the required capability')
      await close()
    })
  }

  describe('the state of a round', () => {
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
    const round = (token: string, extra: object = {}, tool = 'wipe') =>
      modern(
        'tools/call',
        { name: tool, arguments: { what: 'notes' }, _meta: capabilities, ...extra },
        bearer(token),
      )
    const answer = { inputResponses: { confirm: accept(true) } }
    /** The state that the first answer brings. */
    const stateOf = async (token: string): Promise<string> => {
      const { message } = await served().send(round(token, answer))
      expect(message.result.resultType).to.equal('input_required')
      return message.result.requestState
    }

    it('a state is valid for the next round', async () => {
      const requestState = await stateOf('reader')
      const { message } = await served().send(round('reader', { ...answer, requestState }))
      expect(message.result.content[0].text).to.equal('notes: true then true')
    })

    it('a state cannot be read by the client', async () => {
      const requestState = await stateOf('reader')
      expect(requestState).to.match(/^[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+$/)
      for (const part of requestState.split('.'))
        expect(Buffer.from(part, 'base64url').toString('latin1')).to.not.match(/first|"u1|wipe/)
    })

    for (const [what, change] of [
      ['is another text', () => 'x'],
      ['is empty', () => ''],
      ['was changed', (state: string) => `${state.slice(0, -6)}AAAAAA`],
      ['was added to', (state: string) => `${state}.x`],
      ['is not a string', () => 5],
    ] as const) {
      it(`a state that ${what} is rejected`, async () => {
        const requestState = change(await stateOf('reader'))
        const { message } = await served().send(round('reader', { ...answer, requestState }))
        expect(message.error.code).to.equal(-32_602)
        if (what !== 'is not a string') {
          expect(message.error.message).to.equal('Invalid or expired requestState')
          expect(message.error.data).to.deep.equal({ reason: 'invalid_request_state' })
        }
      })
    }

    it('a state of another user is rejected', async () => {
      const requestState = await stateOf('writer')
      const { message } = await served().send(round('reader', { ...answer, requestState }))
      expect(message.error.message).to.equal('Invalid or expired requestState')
    })

    it('a state of another operation is rejected', async () => {
      const requestState = await stateOf('reader')
      const { message } = await served().send(round('reader', { ...answer, requestState }, 'other'))
      expect(message.error.message).to.equal('Invalid or expired requestState')
    })

    it('a state is rejected by a process with another secret, and accepted by one with the same', async () => {
      const secret = 'a secret of thirty-two characters'
      const nodeOf = (requestStateSecret?: string | Uint8Array) =>
        web(createMcpAdapter({ router, oauth: oauth(), requestStateSecret }).server)
      const first = await nodeOf(secret).send(round('reader', answer))
      const { requestState } = first.message.result
      const again = round('reader', { ...answer, requestState })
      expect((await nodeOf(secret).send(again)).message.result.content[0].text).to.contain('true then true')
      expect((await nodeOf(Buffer.from(secret)).send(again)).message.result.content[0].text).to.contain(
        'true',
      )
      for (const other of ['another secret of thirty-two chars', undefined])
        expect((await nodeOf(other).send(again)).message.error.code).to.equal(-32_602)
    })

    it('a state is rejected after an hour, or without an expiry', async () => {
      const now = Date.now
      const states = new RequestStates(undefined)
      const sealed = await states.seal({ a: 1 }, 'holder')
      expect(await states.open(sealed, 'holder')).to.deep.equal({ a: 1 })
      try {
        Date.now = () => now() - 3_601_000
        const old = await states.seal({ a: 1 }, 'holder')
        Date.now = now
        expect(await states.open(old, 'holder').catch((error) => error.code)).to.equal('ERR_JWT_EXPIRED')
      } finally {
        Date.now = now
      }
      const foreign = await new EncryptJWT({ state: 1 })
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
        .setSubject('holder')
        .encrypt(new Uint8Array(32))
      expect(await states.open(foreign, 'holder').catch(() => 'refused')).to.equal('refused')
    })
  })

  const HOLDERS: readonly (readonly [what: string, held: (token: string) => Partial<VerifiedToken>])[] = [
    ['the token where the verifier names neither user nor client', () => ({})],
    ['the client that its user uses', (token) => ({ user: { id: 'u1' }, clientId: token })],
    ['the user of a client', (token) => ({ user: { id: token }, clientId: 'web' })],
  ]
  for (const [what, held] of HOLDERS) {
    it(`a state belongs to ${what}`, async () => {
      const verifyToken: VerifyToken = ({ bearerToken = '' }) => ({
        valid: true,
        scopes: ['mcp:read'],
        ...held(bearerToken),
      })
      const { server } = createMcpAdapter({ router, oauth: oauth({ verifyToken }) })
      const call = (token: string, requestState?: string) => {
        const params = { name: 'sdk', arguments: {}, ...(requestState !== undefined && { requestState }) }
        return web(server).send(modern('tools/call', params, bearer(token)))
      }
      const { requestState } = (await call('one')).message.result
      expect((await call('one', requestState)).message.result.content[0].text).to.equal('state plain')
      expect((await call('two', requestState)).message.error.code).to.equal(-32_602)
    })
  }
})
