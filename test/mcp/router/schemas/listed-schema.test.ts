import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type } from 'arktype'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpConfigError, mcpHandler } from '../../../../src/index.ts'
import { KitMcpRouter, tableOf } from '../../../../src/mcp/router/router.ts'
import type { JsonSchema } from '../../../../src/mcp/router/schemas/json-schema.ts'
import { onNode } from '../../../support/mcp/entry-points.ts'

const INFO = { name: 'test', version: '1' }

/** Outputs with a value that the validation accepts. */
const OUTPUTS: Readonly<Record<string, readonly [schema: StandardSchemaV1, value: object]>> = {
  'a class with a hyphen': [z.object({ a: z.string().regex(/^[\w-.]+$/) }), { a: 'x' }],
  'an escaped colon': [z.object({ a: z.string().regex(/^https:\/\//) }), { a: 'https://x' }],
  'the flag i': [z.object({ a: z.string().regex(/^ab$/i) }), { a: 'AB' }],
  'the flag s': [z.object({ a: z.string().regex(/^a.b$/s) }), { a: 'a\nb' }],
  'the flag m': [z.object({ a: z.string().regex(/^b$/m) }), { a: 'a\nb' }],
  'the flag i beside another pattern': [z.object({ a: z.string().regex(/^ab$/i).regex(/b|B/) }), { a: 'AB' }],
  'the flag i in names': [z.object({ a: z.record(z.string().regex(/^a$/i), z.number()) }), { a: { A: 1 } }],
  'the flag i of arktype': [type({ a: /^ab$/i }), { a: 'AB' }],
  any: [z.object({ a: z.any(), b: z.unknown() }), { a: undefined, b: undefined }],
  'any in an array': [z.object({ l: z.array(z.object({ a: z.any() })) }), { l: [{ a: undefined }] }],
  'any in a union': [z.object({ a: z.union([z.string(), z.any()]) }), { a: undefined }],
  'any in a record': [z.object({ a: z.record(z.enum(['x', 'y']), z.any()) }), { a: { x: 1, y: undefined } }],
  'unknown of arktype': [type({ a: 'unknown' }), { a: undefined }],
  'a union of overlapping patterns': [
    z.object({
      d: z.discriminatedUnion('k', [
        z.object({ k: z.literal('a'), p: z.string().regex(/^x$/i) }),
        z.object({ k: z.literal('b'), p: z.string() }),
      ]),
    }),
    { d: { k: 'a', p: 'X' } },
  ],
  'a fraction': [z.object({ a: z.number().multipleOf(0.01) }), { a: 0.07 }],
  'a URL': [z.object({ a: z.url() }), { a: 'https://example.com/ü' }],
  'a duration': [z.object({ a: z.iso.duration() }), { a: 'PT0.5S' }],
  'an IPv6 address': [z.object({ a: z.ipv6() }), { a: '::ffff:1.2.3.4' }],
  'an email': [z.object({ a: z.email({ pattern: z.regexes.html5Email }) }), { a: 'a@localhost' }],
  'half characters': [
    z.object({ a: z.string().regex(/^..$/), b: z.string().regex(/^\W[^\\]$/) }),
    { a: '😀', b: '😀' },
  ],
  'a tuple': [z.object({ a: z.tuple([z.string()], z.number()) }), { a: ['x', 1] }],
}

/** A schema of a library that emits a JSON Schema as it is. */
const emitting = (json: JsonSchema): StandardSchemaV1 =>
  ({
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => json, output: () => json },
    },
  }) as StandardSchemaV1

const object = (a: unknown, others: object = {}): JsonSchema => ({
  type: 'object',
  properties: { a },
  ...others,
})

describe('listed schemas', () => {
  const router = Object.entries(OUTPUTS).reduce(
    (built, [name, [output, value]]) =>
      built.tool(
        name.replaceAll(' ', '_'),
        { description: 'x', output: output as never },
        () => value as never,
      ),
    KitMcpRouter.create() as any,
  )
  const connecting = {
    'SDK v1': async (url: URL) => {
      const client = new ClientV1(INFO)
      await client.connect(new TransportV1(url) as never)
      return client
    },
    'SDK v2': async (url: URL) => {
      const client = new ClientV2(INFO)
      await client.connect(new TransportV2(url))
      return client
    },
  }

  for (const [name, connect] of Object.entries(connecting))
    it(`are compiled by a client of ${name}, which accepts each result that the validation accepts`, async () => {
      const served = await onNode(mcpHandler(createMcpAdapter({ router })))
      const client = await connect(new URL(`${served.origin}/mcp`))
      try {
        const { tools } = await client.listTools()
        expect(tools).to.have.length(Object.keys(OUTPUTS).length)
        for (const tool of tools) {
          const result = await client.callTool({ name: tool.name, arguments: {} }).catch((error) => error)
          expect(result, `${tool.name}: ${result.message ?? JSON.stringify(result)}`).not.to.be.an('error')
          expect(result.isError, `${tool.name}: ${JSON.stringify(result)}`).to.not.equal(true)
        }
      } finally {
        await client.close()
        await served.close()
      }
    })

  it('keep patterns that every client understands, and keys that must be present', () => {
    const output = z.object({ a: z.string().regex(/^a\.\d+$/), b: z.string().nullable(), c: z.any() })
    const input = z.object({ a: z.string().regex(/^A$/i), b: z.any() })
    const [tool] = createdTools({ output, input })
    expect(tool.outputSchema.properties.a.pattern).to.equal('^a\\.\\d+$')
    expect(tool.outputSchema.required).to.deep.equal(['a', 'b'])
    expect(tool.inputSchema.properties.a).to.deep.equal({ type: 'string' })
    expect(tool.inputSchema.required).to.deep.equal(['a', 'b'])
  })

  for (const [what, json] of [
    ['$ref', object({ $ref: '#/$defs/missing' })],
    ['$ref', object({ items: { $ref: '#/%' } })],
    ['$ref', object({ $ref: 'https://example.com/schema.json' })],
    ['$ref', object({ $ref: '#anchor' })],
    ['$ref', object({ type: 'object', additionalProperties: { $ref: '#/properties/a/constructor' } })],
    ['type', object({ type: 'str' })],
    ['type', object({ anyOf: [{ type: ['string', 'int'] }] })],
    ['type', object({ type: 'object', patternProperties: { a: { type: 'date' } } })],
    ['type', object({}, { $defs: { d: { type: 'x' } } })],
  ] as const)
    it(`${JSON.stringify(json)} is a configuration error that names its ${what}`, () => {
      const schema = emitting(json)
      const declared = [
        () => KitMcpRouter.create().tool('t', { description: 'x', input: schema } as never, () => 'x'),
        () =>
          KitMcpRouter.create().tool('t', { description: 'x', output: schema } as never, () => ({}) as never),
        () => KitMcpRouter.create().prompt('p', { description: 'x', input: schema } as never, () => 'x'),
        () => KitMcpRouter.create().event('e', { description: 'x', payload: schema } as never),
        () =>
          KitMcpRouter.create().event('e', {
            description: 'x',
            payload: z.object({}),
            input: schema,
          } as never),
      ]
      for (const declare of declared) expect(declare).to.throw(KitMcpConfigError, `its ${what} `)
    })

  it('may have references with a target, and members that are named like keywords', () => {
    const json = object(
      { $ref: '#/$defs/a~1b' },
      {
        $id: 'https://example.com/own',
        $defs: { 'a/b': { type: 'string' }, c: { $anchor: 'here', type: 'null' } },
        properties: {
          type: { const: 'x' },
          $ref: { $ref: '#here' },
          pattern: { $ref: '#' },
          o: { $ref: 'https://example.com/own' },
        },
      },
    )
    const [tool] = createdTools({ output: emitting(json) })
    expect(tool.outputSchema).to.deep.equal(json)
  })
})

function createdTools(schemas: object): any[] {
  const router = KitMcpRouter.create().tool(
    't',
    { description: 'x', ...schemas } as never,
    () => ({}) as never,
  )
  return [...tableOf(router).tools.values()].map(({ definition }) => definition)
}
