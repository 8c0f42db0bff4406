import { setTimeout as delay } from 'node:timers/promises'
import {
  fromJsonSchema,
  inputRequired,
  type PromptMessage,
  ProtocolError,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { McpNotifier } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { KitToolError } from '../../src/mcp/router/tool-error.ts'

/** A PNG with one red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
/** A WAV file without samples. */
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

const text = (words: string) => ({ type: 'text' as const, text: words })
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' }
const fromUser = (content: PromptMessage['content']): PromptMessage => ({ role: 'user', content })

const NAME = z.object({ name: z.string() })
const COLOR = z.object({ color: z.string() })
const OK = z.object({ ok: z.boolean() })
const CONTEXT = z.object({ context: z.string() })

const askName = inputRequired.elicit({ message: 'What is your name?', requestedSchema: NAME })
const askCapital = inputRequired.createMessage({
  messages: [{ role: 'user', content: text('What is the capital of France?') }],
  maxTokens: 100,
})

/** The form with default values of SEP-1034. */
const DEFAULTS = {
  type: 'object' as const,
  properties: {
    name: { type: 'string' as const, default: 'John Doe' },
    age: { type: 'integer' as const, default: 30 },
    score: { type: 'number' as const, default: 95.5 },
    status: { type: 'string' as const, enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean' as const, default: true },
  },
}

/** The five kinds of enumerations of SEP-1330. */
const CHOICES = {
  type: 'object' as const,
  properties: {
    untitledSingle: { type: 'string' as const, enum: ['option1', 'option2', 'option3'] },
    titledSingle: { type: 'string' as const, oneOf: titled('First', 'Second', 'Third') },
    legacyEnum: {
      type: 'string' as const,
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: {
      type: 'array' as const,
      items: { type: 'string' as const, enum: ['option1', 'option2', 'option3'] },
    },
    titledMulti: { type: 'array' as const, items: { anyOf: titled('First', 'Second', 'Third') } },
  },
}

function titled(...titles: string[]) {
  return titles.map((title, index) => ({ const: `value${index + 1}`, title }))
}

/** Keywords of JSON Schema 2020-12 that a list of tools must preserve (SEP-1613, SEP-2106). */
const JSON_SCHEMA_2020_12 = fromJsonSchema<Record<string, unknown>>({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
})

/**
 * Returns the server that the conformance suite of the protocol expects, written with `KitMcpRouter`.
 * @param notify Returns the notifier for tools that change a list.
 */
export function everything(notify: () => McpNotifier): KitMcpRouter {
  return tasks(rounds(resources(prompts(tools(KitMcpRouter.create(), notify)))))
}

/** Adds the tools that run as tasks (SEP-2663). */
function tasks(router: KitMcpRouter): KitMcpRouter {
  return router
    .tool('greet', { description: 'Never a task', input: NAME }, ({ name }) => `Hello, ${name}!`)
    .tool(
      'slow_compute',
      {
        description: 'Takes some seconds',
        input: z.object({ seconds: z.number(), label: z.string().optional() }),
        task: 'optional',
        pollIntervalMs: 200,
      },
      async ({ seconds }, { signal }) => {
        await delay(seconds * 1_000, undefined, { signal })
        return `computed for ${seconds} s`
      },
    )
    .tool('failing_job', { description: 'Fails', task: 'required' }, async (_args, { signal }) => {
      await delay(1_000, undefined, { signal })
      throw new KitToolError('The job has failed')
    })
    .tool('protocol_error_job', { description: 'Fails by the protocol', task: 'optional' }, () => {
      throw new ProtocolError(-32_603, 'The job broke the protocol')
    })
    .tool(
      'confirm_delete',
      { description: 'Asks first', input: z.object({ filename: z.string() }), task: 'optional' },
      ({ filename }, context) => {
        const { confirm } = context.inputResponses
        if (confirm !== undefined) return `${filename}: ${JSON.stringify(confirm)}`
        return context.inputRequired({ confirm: ask(`Delete ${filename}?`) })
      },
    )
    .tool('multi_input', { description: 'Asks two', task: 'optional' }, (_args, context) => {
      const { first, second } = context.inputResponses
      if (first !== undefined && second !== undefined) return JSON.stringify({ first, second })
      return context.inputRequired({ first: ask('First?'), second: ask('Second?') })
    })
    .tool(
      'test_tool_with_task',
      {
        description: 'Asks before it becomes a task',
        task: 'required',
        beforeTask: (_args, context) =>
          context.accepted('user_name', NAME) === undefined
            ? context.inputRequired({ user_name: askName })
            : undefined,
      },
      (_args, context) => `Hello, ${context.accepted('user_name', NAME)?.name}!`,
    )
}

function ask(message: string) {
  const requestedSchema = { type: 'object' as const, properties: { confirm: { type: 'boolean' as const } } }
  return inputRequired.elicit({ message, requestedSchema })
}

function tools(router: KitMcpRouter, notify: () => McpNotifier): KitMcpRouter {
  return router
    .tool('test_simple_text', { description: 'Text' }, () => 'This is a simple text response for testing.')
    .tool('test_image_content', { description: 'An image' }, () => ({ content: [image] }))
    .tool('test_audio_content', { description: 'Sound' }, () => ({
      content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }],
    }))
    .tool('test_embedded_resource', { description: 'A resource' }, () => ({
      content: [
        {
          type: 'resource',
          resource: {
            uri: 'test://embedded-resource',
            mimeType: 'text/plain',
            text: 'This is an embedded resource content.',
          },
        },
      ],
    }))
    .tool('test_multiple_content_types', { description: 'Several kinds at once' }, () => ({
      content: [
        text('Multiple content types test:'),
        image,
        {
          type: 'resource',
          resource: {
            uri: 'test://mixed-content-resource',
            mimeType: 'application/json',
            text: '{"test":"data","value":123}',
          },
        },
      ],
    }))
    .tool('test_tool_with_logging', { description: 'Logs' }, async (_args, context) => {
      await context.log('info', 'Tool execution started')
      await delay(50)
      await context.log('info', 'Tool processing data')
      await delay(50)
      await context.log('info', 'Tool execution completed')
      return 'Tool with logging executed successfully'
    })
    .tool('test_tool_with_progress', { description: 'Tells how far it is' }, async (_args, context) => {
      for (const progress of [0, 50, 100]) {
        await context.progress(progress, 100, `Completed step ${progress} of 100`)
        await delay(50)
      }
      return 'done'
    })
    .tool('test_error_handling', { description: 'Fails' }, () => {
      throw new Error('This tool intentionally returns an error for testing')
    })
    .tool(
      'test_reconnection',
      { description: 'Lets its stream go and answers later' },
      async (_args, context) => {
        context.releaseStream()
        await delay(100)
        return 'Reconnection test completed successfully'
      },
    )
    .tool(
      'json_schema_2020_12_tool',
      { description: 'Tool with JSON Schema 2020-12 features', input: JSON_SCHEMA_2020_12 },
      (args) => args,
    )
    .tool(
      'test_x_mcp_header',
      {
        description: 'Has an argument that clients repeat in a header',
        input: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
      },
      ({ region }) => `region ${region}`,
    )
    .tool('test_logging_tool', { description: 'Logs once' }, async (_args, context) => {
      await context.log('info', 'logged')
      return 'logged'
    })
    .tool(
      'test_trigger_tool_change',
      { description: 'Sends a notification that the tools have changed' },
      () => {
        notify().toolsChanged()
        return 'notified'
      },
    )
    .tool(
      'test_trigger_prompt_change',
      { description: 'Sends a notification that the prompts have changed' },
      () => {
        notify().promptsChanged()
        return 'notified'
      },
    )
}

function prompts(router: KitMcpRouter): KitMcpRouter {
  return router
    .prompt(
      'test_simple_prompt',
      { description: 'No arguments' },
      () => 'This is a simple prompt for testing.',
    )
    .prompt(
      'test_prompt_with_arguments',
      {
        description: 'Two arguments',
        input: z.object({
          arg1: z.string().describe('First test argument'),
          arg2: z.string().describe('Second test argument'),
        }),
        complete: { arg1: (value) => ['test', 'testing', 'paris'].filter((one) => one.startsWith(value)) },
      },
      ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`,
    )
    .prompt(
      'test_prompt_with_embedded_resource',
      { description: 'Embeds a resource', input: z.object({ resourceUri: z.string() }) },
      ({ resourceUri }) => [
        fromUser({
          type: 'resource',
          resource: {
            uri: resourceUri,
            mimeType: 'text/plain',
            text: 'Embedded resource content for testing.',
          },
        }),
        fromUser(text('Please process the embedded resource above.')),
      ],
    )
    .prompt('test_prompt_with_image', { description: 'Shows an image' }, () => [
      fromUser(image),
      fromUser(text('Please analyze the image above.')),
    ])
    .prompt('test_input_required_result_prompt', { description: 'Asks first' }, (_args, context) => {
      const answer = context.accepted('user_context', CONTEXT)
      if (answer !== undefined) return `Use this context: ${answer.context}`
      return context.inputRequired({
        user_context: inputRequired.elicit({
          message: 'What context should the prompt use?',
          requestedSchema: CONTEXT,
        }),
      })
    })
}

function resources(router: KitMcpRouter): KitMcpRouter {
  return router
    .resource(
      'static-text',
      { uri: 'test://static-text', mimeType: 'text/plain' },
      () => 'This is the content of the static text resource.',
    )
    .resource('static-binary', { uri: 'test://static-binary', mimeType: 'image/png' }, () =>
      Buffer.from(PNG, 'base64'),
    )
    .resource('watched', { uri: 'test://watched-resource' }, () => 'Watched resource content')
    .resourceTemplate(
      'template',
      { uriTemplate: 'test://template/{id}/data', mimeType: 'application/json' },
      (_uri, { id }) => ({ id, templateTest: true, data: `Data for ID: ${id}` }),
    )
}

/** Adds the tools that request input from the client (SEP-2322), and those of earlier revisions, which need a session. */
function rounds(router: KitMcpRouter): KitMcpRouter {
  return router
    .tool('test_input_required_result_elicitation', { description: 'Asks the user' }, (_args, context) => {
      const answer = context.accepted('user_name', NAME)
      return answer === undefined ? context.inputRequired({ user_name: askName }) : `Hello, ${answer.name}!`
    })
    .tool('test_input_required_result_sampling', { description: 'Asks the model' }, (_args, context) => {
      const { capital_question: answer } = context.inputResponses
      return answer ?? context.inputRequired({ capital_question: askCapital })
    })
    .tool('test_input_required_result_list_roots', { description: 'Asks for roots' }, (_args, context) => {
      const { client_roots: answer } = context.inputResponses
      return answer ?? context.inputRequired({ client_roots: inputRequired.listRoots() })
    })
    .tool('test_input_required_result_request_state', { description: 'Keeps a state' }, (_args, context) => {
      if (context.accepted('confirm', OK) !== undefined && context.state === 'confirming') return 'state-ok'
      return context.inputRequired(
        { confirm: inputRequired.elicit({ message: 'Please confirm', requestedSchema: OK }) },
        'confirming',
      )
    })
    .tool('test_input_required_result_tampered_state', { description: 'Keeps a state' }, (_args, context) => {
      if (context.state !== undefined) return 'state-ok'
      return context.inputRequired(
        { confirm: inputRequired.elicit({ message: 'Please confirm', requestedSchema: OK }) },
        { confirming: true },
      )
    })
    .tool('test_input_required_result_multiple_inputs', { description: 'Asks three' }, (_args, context) => {
      const { greeting, client_roots: roots } = context.inputResponses
      const answer = context.accepted('user_name', NAME)
      if (answer !== undefined && greeting !== undefined && roots !== undefined)
        return `Hello, ${answer.name}!`
      return context.inputRequired(
        {
          user_name: askName,
          greeting: inputRequired.createMessage({
            messages: [{ role: 'user', content: text('Generate a greeting') }],
            maxTokens: 50,
          }),
          client_roots: inputRequired.listRoots(),
        },
        'asking',
      )
    })
    .tool('test_input_required_result_multi_round', { description: 'Asks twice' }, (_args, context) => {
      const state = context.state as { name?: string } | undefined
      const color = context.accepted('step2', COLOR)
      if (state?.name !== undefined && color !== undefined) return `${state.name} likes ${color.color}`
      const name = state?.name ?? context.accepted('step1', NAME)?.name
      if (name !== undefined) {
        const message = 'Step 2: What is your favorite color?'
        return context.inputRequired(
          { step2: inputRequired.elicit({ message, requestedSchema: COLOR }) },
          { name },
        )
      }
      const message = 'Step 1: What is your name?'
      return context.inputRequired({ step1: inputRequired.elicit({ message, requestedSchema: NAME }) }, {})
    })
    .tool(
      'test_input_required_result_capabilities',
      { description: 'Asks what can be' },
      (_args, context) => {
        const { sampling, elicitation } = context.clientCapabilities ?? {}
        return context.inputRequired({
          ...(sampling !== undefined && { capital_question: askCapital }),
          ...(elicitation !== undefined && { user_name: askName }),
        })
      },
    )
    .tool('test_missing_capability', { description: 'Needs sampling' }, (_args, context) =>
      context.inputRequired({ capital_question: askCapital }),
    )
    .tool('test_streaming_elicitation', { description: 'Asks the user' }, (_args, context) =>
      context.inputRequired({ user_name: askName }),
    )
    .tool(
      'test_sampling',
      { description: 'Asks the model', input: z.object({ prompt: z.string() }) },
      ({ prompt }, context) => {
        const { answer } = context.inputResponses
        if (answer !== undefined) return `LLM response: ${JSON.stringify(answer)}`
        const messages = [{ role: 'user' as const, content: text(prompt) }]
        return context.inputRequired({ answer: inputRequired.createMessage({ messages, maxTokens: 100 }) })
      },
    )
    .tool(
      'test_elicitation',
      { description: 'Asks the user', input: z.object({ message: z.string() }) },
      ({ message }, context) => {
        const { answer } = context.inputResponses
        if (answer !== undefined) return `User response: ${JSON.stringify(answer)}`
        const requestedSchema = z.object({
          username: z.string().describe("User's response"),
          email: z.string().describe("User's email address"),
        })
        return context.inputRequired({ answer: inputRequired.elicit({ message, requestedSchema }) })
      },
    )
    .tool('test_elicitation_sep1034_defaults', { description: 'A form with defaults' }, (_args, context) => {
      const { answer } = context.inputResponses
      if (answer !== undefined) return `Elicitation completed: ${JSON.stringify(answer)}`
      const message = 'Please review the form'
      return context.inputRequired({ answer: inputRequired.elicit({ message, requestedSchema: DEFAULTS }) })
    })
    .tool('test_elicitation_sep1330_enums', { description: 'A form with choices' }, (_args, context) => {
      const { answer } = context.inputResponses
      if (answer !== undefined) return `Elicitation completed: ${JSON.stringify(answer)}`
      const message = 'Please choose'
      return context.inputRequired({ answer: inputRequired.elicit({ message, requestedSchema: CHOICES }) })
    })
}
