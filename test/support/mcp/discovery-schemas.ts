import { Ajv2020 } from 'ajv/dist/2020.js'

/** The requirements of the schema of server cards (SEP-2127), written by their meaning. Further members are allowed. */
const CARD = {
  type: 'object',
  required: ['$schema', 'name', 'version', 'description'],
  properties: {
    $schema: { const: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json' },
    name: { type: 'string', minLength: 3, maxLength: 200, pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$' },
    version: { type: 'string', maxLength: 255 },
    description: { type: 'string', minLength: 1, maxLength: 100 },
    title: { type: 'string', minLength: 1, maxLength: 100 },
    websiteUrl: { type: 'string', format: 'uri' },
    icons: {
      type: 'array',
      items: {
        type: 'object',
        required: ['src'],
        properties: {
          src: { type: 'string', format: 'uri' },
          mimeType: { type: 'string' },
          sizes: { type: 'array', items: { type: 'string' } },
          theme: { enum: ['dark', 'light'] },
        },
      },
    },
    repository: {
      type: 'object',
      required: ['source', 'url'],
      properties: {
        url: { type: 'string', format: 'uri' },
        source: { type: 'string' },
        id: { type: 'string' },
        subfolder: { type: 'string' },
      },
    },
    remotes: {
      type: 'array',
      items: {
        type: 'object',
        required: ['type', 'url'],
        properties: {
          type: { enum: ['sse', 'streamable-http'] },
          url: { type: 'string', pattern: '^(https?://[^\\s]+|\\{[a-zA-Z_][a-zA-Z0-9_]*\\}[^\\s]*)$' },
          supportedProtocolVersions: { type: 'array', items: { type: 'string' } },
          headers: { type: 'array', items: { type: 'object', required: ['name'] } },
          variables: { type: 'object' },
        },
      },
    },
  },
}

/** The requirements of the specification of catalogs for an entry of a server card. */
const CATALOG = {
  type: 'object',
  required: ['specVersion', 'entries'],
  properties: {
    specVersion: { const: '1.0' },
    entries: {
      type: 'array',
      items: {
        type: 'object',
        required: ['identifier', 'type', 'url'],
        properties: {
          identifier: { type: 'string', format: 'uri' },
          type: { const: 'application/mcp-server-card+json' },
          url: { type: 'string', format: 'uri' },
        },
      },
    },
  },
}

const ajv = new Ajv2020({ strict: false, allErrors: true })
/** URIs of RFC 3986 with an authority or without one, and without a fragment that is empty. */
ajv.addFormat(
  'uri',
  /^[a-z][a-z0-9+.-]*:(?:\/\/\[[0-9a-f:]+\])?(?:[a-z0-9\-._~:/?@!$&'()*+,;=]|%[0-9a-f]{2})+(?:#(?:[a-z0-9\-._~:/?@!$&'()*+,;=]|%[0-9a-f]{2})*)?$/i,
)
const validateCard = ajv.compile(CARD)
const validateCatalog = ajv.compile(CATALOG)

/** Returns the problems of a server card; none if it is valid. */
export function problemsOfCard(card: unknown): readonly string[] {
  return validateCard(card)
    ? []
    : (validateCard.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

/** Returns the problems of a catalog; none if it is valid. */
export function problemsOfCatalog(catalog: unknown): readonly string[] {
  return validateCatalog(catalog)
    ? []
    : (validateCatalog.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
}

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'

/** Cards by what they show, and whether the schema allows them. */
export const CARDS: readonly (readonly [what: string, isValid: boolean, card: object])[] = [
  ['only the required members', true, card({})],
  [
    'a remote with a template',
    true,
    card({
      title: 'Notes',
      remotes: [
        {
          type: 'streamable-http',
          url: 'https://{region}.notes.example/mcp',
          headers: [{ name: 'X-Region', value: '{region}', isRequired: true }],
          variables: { region: { description: 'The region', default: 'eu' } },
          supportedProtocolVersions: ['2025-11-25'],
        },
      ],
    }),
  ],
  ['a remote that is only a variable', true, card({ remotes: [{ type: 'sse', url: '{endpoint}' }] })],
  ['a name without a namespace', false, card({ name: 'notes' })],
  ['a name with two slashes', false, card({ name: 'example/notes/v2' })],
  ['no name', false, card({ name: undefined })],
  ['no version', false, card({ version: undefined })],
  ['an empty description', false, card({ description: '' })],
  ['a description of 101 characters', false, card({ description: 'x'.repeat(101) })],
  ['no schema', false, card({ $schema: undefined })],
  ['a schema with a date', false, card({ $schema: SCHEMA.replace('/v1/', '/2025-11-25/') })],
  ['the schema of registries', false, card({ $schema: SCHEMA.replace('server-card', 'server') })],
  ['a remote of another transport', false, card({ remotes: [{ type: 'stdio', url: 'https://a.example' }] })],
  ['a remote without a URL', false, card({ remotes: [{ type: 'sse' }] })],
  ['remotes that are not a list', false, card({ remotes: {} })],
  ['a repository without a source', false, card({ repository: { url: 'https://a.example/notes' } })],
]

function card(changes: Readonly<Record<string, unknown>>): object {
  const usual = {
    $schema: SCHEMA,
    name: 'example.notes/server',
    version: '1.0.0',
    description: 'Keeps notes.',
  }
  return JSON.parse(JSON.stringify({ ...usual, ...changes }))
}
