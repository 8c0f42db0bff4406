import type { CardRepository } from '../mcp/server-card.ts'
import { isCardName, isCardText, isUri } from '../mcp/server-card.ts'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../options/option-rules.ts'

const { checkBoolean, checkText, invalidKind, invalidOption, readMembers, required, text } =
  optionChecksOf('mcpServer')

/** The contents of the server card and the catalog. */
export interface McpDiscoveryOptions {
  /**
   * The name in reverse-DNS form, such as `com.example/notes`. Defaults to `serverInfo.name` if it has this form, or else to a name
   * that begins with the host of the resource.
   */
  readonly name?: string | undefined
  /** One sentence for people, of at most 100 characters. Defaults to the description, title, or name of `serverInfo`. */
  readonly description?: string | undefined
  /** The source code of the server. By default, none is named. */
  readonly repository?: CardRepository | undefined
  /** The identifier in catalogs. Defaults to `urn:air:<host>:mcp:<part of the name behind the slash>`. */
  readonly identifier?: string | undefined
  /** Serves a catalog with this server at `/.well-known/ai-catalog.json`. Defaults to `true`. */
  readonly catalog?: boolean | undefined
}

const MAX_IDENTIFIER = 1_024

const REPOSITORY_RULES = {
  url: required(uri, `set it to the URL of the source code, such as 'https://github.com/acme/notes'`),
  source: required(text, `set it to the hosting service, such as 'github'`),
  id: optional(checkText),
  subfolder: optional(checkText),
} satisfies RulesFor<CardRepository>

const RULES = {
  name: optional((option, value) => {
    if (typeof value === 'string' && isCardName(value)) return value
    throw invalidOption(
      option,
      `must be a name in reverse-DNS form such as 'com.example/notes', of at most 200 characters`,
      value,
      'Use letters, digits, dots, and hyphens, and underscores behind the only slash.',
    )
  }),
  description: optional((option, value) => {
    if (typeof value === 'string' && isCardText(value)) return value
    throw invalidOption(option, 'must be a string of 1 to 100 characters', value)
  }),
  repository: optional((option, value) => {
    if (isOptionsObject(value)) return definedMembers(readMembers(option, value, REPOSITORY_RULES))
    throw invalidKind(
      option,
      `must be an object such as { url: 'https://github.com/acme/notes', source: 'github' }`,
      value,
    )
  }),
  identifier: optional((option, value) => {
    if (isUri(value) && value.startsWith('urn:') && value.length <= MAX_IDENTIFIER) return value
    throw invalidOption(option, `must be a URN such as 'urn:air:example.com:mcp:notes'`, value)
  }),
  catalog: optional(checkBoolean, true),
} satisfies RulesFor<McpDiscoveryOptions>

/** Checks the option `discovery` of `mcpServer`. */
export function checkDiscovery(option: string, value: unknown = {}): false | ReadBy<typeof RULES> {
  if (value === false) return value
  if (isOptionsObject(value)) return readMembers(option, value, RULES)
  throw invalidKind(
    option,
    'must be false, or an object with at least one option',
    value,
    'Omit it for the default.',
  )
}

function uri(option: string, value: unknown): string {
  if (isUri(value)) return value
  throw invalidOption(option, `must be an absolute URL such as 'https://github.com/acme/notes'`, value)
}

/** Removes members that are `undefined`, so that they are not in the card. */
function definedMembers<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Value
}
