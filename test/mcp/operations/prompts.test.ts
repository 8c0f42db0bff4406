import { ProtocolError } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, KitToolError, mcpHandler } from '../../../src/index.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../../src/telemetry/index.ts'
import { CLIENT_KINDS, type Connected, errorOf } from '../../support/mcp/clients.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { onNode, serving, web } from '../../support/mcp/entry-points.ts'
import { legacy, modern, rpc } from '../../support/mcp/wire.ts'

const CITIES = Array.from({ length: 150 }, (_, index) => `city-${index}`)

const router = KitMcpRouter.create()
  .context(() => ({ country: 'France' }))
  .prompt(
    'greet',
    {
      title: 'Greet',
      description: 'Greets a person',
      icons: [{ src: 'https://example.com/greet.png', mimeType: 'image/png' }],
      _meta: { 'example.com/kind': 'social' },
      input: z.object({
        name: z.string().meta({ title: 'Name', description: 'Who is greeted' }),
        city: z.string().optional(),
      }),
      complete: {
        name: (value, { arguments: others, context }) => [
          `${value}-${others.city}-${context.context.country}`,
        ],
        city: async (value) => CITIES.filter((city) => city.startsWith(value)),
      },
    },
    ({ name, city = 'nowhere' }) => `Say hello to ${name} in ${city}.`,
  )
  .prompt('plain', {}, () => [
    { role: 'user', content: { type: 'text', text: 'one' } },
    { role: 'assistant', content: { type: 'text', text: 'two' } },
  ])
  .prompt('whole', { description: 'not this' }, async () => ({
    description: 'made by the handler',
    messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'whole' } }],
  }))
  .prompt('refuses', {}, () => {
    throw new KitToolError('no greetings today')
  })
  .prompt('protocol', {}, () => {
    throw new ProtocolError(-32_602, 'said by the handler')
  })
  .prompt('breaks', { complete: {} }, () => {
    throw new Error('database password')
  })
  .prompt('nothing', {}, (() => 5) as never)

describe('mcp: prompts', () => {
  const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router }))))

  for (const { name, connect } of CLIENT_KINDS) {
    describe(name, () => {
      let connected: Connected
      beforeEach(async () => {
        connected = await connect(served().origin)
      })
      afterEach(async () => connected.close())

      it('a client lists prompts with their descriptions', async () => {
        const { prompts } = await connected.client.listPrompts()
        expect(prompts.map((prompt: { name: string }) => prompt.name)).to.deep.equal([
          'greet',
          'plain',
          'whole',
          'refuses',
          'protocol',
          'breaks',
          'nothing',
        ])
        expect(prompts[0]).to.deep.include({
          title: 'Greet',
          description: 'Greets a person',
          icons: [{ src: 'https://example.com/greet.png', mimeType: 'image/png' }],
          _meta: { 'example.com/kind': 'social' },
          arguments: [
            { name: 'name', description: 'Who is greeted', required: true },
            { name: 'city', required: false },
          ],
        })
        expect(prompts[1]).to.have.all.keys('name')
      })

      for (const [prompt, args, description, texts] of [
        ['greet', { name: 'Ann', city: 'Rome' }, 'Greets a person', ['Say hello to Ann in Rome.']],
        ['greet', { name: 'Ann' }, 'Greets a person', ['Say hello to Ann in nowhere.']],
        ['plain', undefined, undefined, ['one', 'two']],
        ['whole', undefined, 'made by the handler', ['whole']],
      ] as const) {
        it(`a client gets ${prompt} with ${JSON.stringify(args)}`, async () => {
          const result = await connected.client.getPrompt({ name: prompt, arguments: args })
          expect(result.description).to.equal(description)
          expect(result.messages.map((one: any) => one.content.text)).to.deep.equal(texts)
        })
      }

      for (const [prompt, args, code, words] of [
        ['greet', {}, -32_602, /Invalid arguments for prompt greet: name: /],
        ['unknown', {}, -32_602, /Prompt unknown not found/],
        ['refuses', {}, -32_603, /no greetings today/],
        ['protocol', {}, -32_602, /said by the handler/],
        ['breaks', {}, -32_603, /The prompt failed\. Reference: [0-9a-f-]{36}$/],
        ['nothing', {}, -32_603, /The prompt failed\. Reference: /],
      ] as const) {
        it(`a client receives the problem of ${prompt}`, async () => {
          const error = await errorOf(connected.client.getPrompt({ name: prompt, arguments: args }))
          expect(error.code).to.equal(code)
          expect(error.message).to.match(words).and.not.contain('password')
        })
      }

      it('arguments are completed by other arguments and the context', async () => {
        const { completion } = await connected.client.complete({
          ref: { type: 'ref/prompt', name: 'greet' },
          argument: { name: 'name', value: 'A' },
          context: { arguments: { city: 'Rome' } },
        })
        expect(completion).to.deep.equal({ values: ['A-Rome-France'], total: 1, hasMore: false })
      })

      it('a client gets at most 100 suggestions', async () => {
        const { completion } = await connected.client.complete({
          ref: { type: 'ref/prompt', name: 'greet' },
          argument: { name: 'city', value: 'city-' },
        })
        expect(completion).to.deep.equal({ values: CITIES.slice(0, 100), total: 150, hasMore: true })
      })

      for (const [prompt, argument] of [
        ['greet', 'unknown'],
        ['plain', 'name'],
        ['breaks', 'name'],
      ]) {
        it(`a client gets no suggestions for ${argument} of ${prompt}`, async () => {
          const { completion } = await connected.client.complete({
            ref: { type: 'ref/prompt', name: prompt },
            argument: { name: argument, value: '' },
          })
          expect(completion.values).to.deep.equal([])
        })
      }

      it('completing an unknown prompt is an error', async () => {
        const ref = { type: 'ref/prompt', name: 'unknown' }
        const error = await errorOf(connected.client.complete({ ref, argument: { name: 'a', value: '' } }))
        expect(error.code).to.equal(-32_602)
      })
    })
  }

  it('arguments of prompts have titles, which the clients of the SDK leave out', async () => {
    const { message } = await web(createMcpAdapter({ router }).server).send(legacy(rpc('prompts/list')))
    expect(message.result.prompts[0].arguments[0]).to.deep.equal({
      name: 'name',
      title: 'Name',
      description: 'Who is greeted',
      required: true,
    })
  })

  it('a router without prompts does not offer prompts', async () => {
    const { server } = createMcpAdapter({
      router: KitMcpRouter.create().tool('a', { description: 'x' }, () => 'x'),
    })
    const { message } = await web(server).send(legacy(rpc('prompts/list')))
    expect(message.error.code).to.equal(-32_601)
    const discovered = await web(server).send(modern('server/discover'))
    expect(discovered.message.result.capabilities).to.deep.equal({
      tools: { listChanged: true },
      logging: {},
    })
  })

  it('a router with prompts does not need tools', async () => {
    const { server } = createMcpAdapter({ router: KitMcpRouter.create().prompt('a', {}, () => 'x') })
    const discovered = await web(server).send(modern('server/discover'))
    expect(discovered.message.result.capabilities).to.deep.equal({
      prompts: { listChanged: true },
      logging: {},
    })
  })

  it('a prompt that fails is recorded in telemetry, with the reference', async () => {
    const transport = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create().addTransport(transport).build()
    const { server } = createMcpAdapter({ router, telemetry })
    const { message } = await web(server).send(legacy(rpc('prompts/get', { name: 'breaks' })))
    await telemetry.flush()
    const failed = transport.getEvents().find(({ name }) => name === 'kit.mcp.request.failed')
    const reference = message.error.message.split('Reference: ')[1]
    expect(failed?.attributes).to.include({
      'gen_ai.prompt.name': 'breaks',
      'mcp.method.name': 'prompts/get',
      'kit.error.reference': reference,
    })
    expect(failed?.error?.message).to.equal('database password')
    await telemetry.shutdown()
  })

  describe('wrong use', () => {
    const prompt = (name: unknown, config: object = {}, handler: unknown = () => 'x') =>
      KitMcpRouter.create().prompt(name as string, config, handler as () => string)
    for (const [what, act, option, words] of [
      ['a bad name', () => prompt('a\nb'), 'prompt', '1 to 128'],
      ['a name with a space behind it', () => prompt('a '), 'prompt', 'spaces around it'],
      ['a duplicate', () => prompt('a').prompt('a', {}, () => 'x'), 'prompt', 'is already registered'],
    ] as const) {
      it(`a prompt is rejected: ${what}`, () => {
        const error = configError(act)
        expect(error.option).to.equal(option)
        expect(error.message).to.contain(words)
      })
    }
  })
})
