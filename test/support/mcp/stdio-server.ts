/** A program that serves stdio. Its only argument is JSON: the options of `serveStdio`, and the parts to turn on. */
import { inputRequired } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { KitMcpRouter, type StdioServer, serveStdio } from '../../../src/index.ts'
import { KitTelemetry, LoggerTransportAdapter } from '../../../src/telemetry/index.ts'

const { hasTelemetry, hasNoScopes, staysOpen, closesTwice, context, ...options } = JSON.parse(
  process.argv[2] ?? '{}',
)

const requestedSchema = { type: 'object' as const, properties: { ok: { type: 'boolean' as const } } }

const router = KitMcpRouter.create()
  .context(async ({ request }) => {
    if (context === 'fails') throw new Error('the context fails')
    return { url: request.url }
  })
  .tool('echo', { description: 'Echoes', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('where', { description: 'Returns the context' }, ({ ...args }, { context, auth, request }) => ({
    ...args,
    context,
    hasAuth: auth !== undefined,
    headers: [...request.headers],
  }))
  .tool('crash', { description: 'Throws' }, () => {
    throw new Error('a secret cause')
  })
  .tool('report', { description: 'Reports progress, logs, and prints' }, async (_args, { progress, log }) => {
    console.log('printed with console.log')
    process.stdout.write('written to process.stdout\n')
    await progress(1, 2, 'half')
    await log('warning', { said: 'so' })
    return 'reported'
  })
  .tool('wait', { description: 'Waits until it is aborted' }, async (_args, { signal, log }) => {
    await log('info', 'waiting')
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    console.error('aborted')
    return 'aborted'
  })
  .tool('ask', { description: 'Asks the user' }, (_args, given) => {
    const answer = given.accepted('confirm', z.object({ ok: z.boolean() }))
    if (answer !== undefined) return `answered ${answer.ok} with ${given.state}`
    return given.inputRequired(
      { confirm: inputRequired.elicit({ message: 'Sure?', requestedSchema }) },
      'a state',
    )
  })
  .tool('confirmed', { description: 'Needs a confirmation', confirm: () => 'Sure?' }, () => 'confirmed')
  .tool('change', { description: 'Changes the page' }, () => {
    server.notify.resourceUpdated('page://one')
    server.notify.toolsChanged()
    return 'changed'
  })
  .tool('wipe', { description: 'Wipes', scopes: ['mcp:admin'] }, () => 'wiped')
  .tool(
    'limited',
    { description: 'Waits', limits: { calls: { max: 1, perSeconds: 60, by: 'user' }, timeoutMs: 20 } },
    () => new Promise(() => undefined),
  )
  .prompt(
    'greet',
    { description: 'Greets', input: z.object({ name: z.string() }) },
    ({ name }) => `Hi ${name}`,
  )
  .resource('one', { uri: 'page://one' }, () => 'the page')
  .resourceTemplate(
    'secret',
    {
      uriTemplate: 'secret://{id}',
      scopes: ['mcp:admin'],
      list: () => [{ name: 'a', uri: 'secret://a' }],
    },
    (_uri, { id }) => `secret ${id}`,
  )

const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(LoggerTransportAdapter.create({ logger: console, format: 'json' }))
  .build()

const open = KitMcpRouter.create().tool('ping', { description: 'Replies with pong' }, () => 'pong')
const server: StdioServer = serveStdio(hasNoScopes ? open : router, {
  ...options,
  ...(hasTelemetry && { telemetry }),
})
void server.closed.then(() => console.error('closed'))
if (closesTwice) {
  const closing = server.close()
  console.error(`the same promise: ${closing === server.close()}`)
}
if (staysOpen) setInterval(() => undefined, 60_000)
