import { cutText } from '../base/cut-text.ts'
import { isRecord } from '../base/options/value-kinds.ts'
import type { ServerInfo } from './options.ts'

/** The source code of a server, as a server card names it. */
export interface CardRepository {
  /** The URL for browsing the source code. */
  readonly url: string
  /** The hosting service, such as `github`. */
  readonly source: string
  /** The id of the repository at the hosting service, which stays the same when it is renamed. */
  readonly id?: string | undefined
  /** The path from the root of the repository to the server. */
  readonly subfolder?: string | undefined
}

/** The members of a server card that the application can replace. */
export interface CardValues {
  readonly name?: string | undefined
  readonly description?: string | undefined
  readonly repository?: CardRepository | undefined
}

/** The media type of a server card. */
export const CARD_TYPE = 'application/mcp-server-card+json'

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'

/** The limits of the schema, in characters. */
const MAX_NAME = 200
const MAX_TEXT = 100
const MAX_VERSION = 255
/** The maximum length of the namespace in a name that is made of a host. */
const MAX_NAMESPACE = 100

/** Returns `true` for a name of the form `com.example/notes`. */
export function isCardName(name: string): boolean {
  return name.length <= MAX_NAME && /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/.test(name)
}

/** Returns `true` for a text that is short enough for a card. */
export function isCardText(text: string): boolean {
  return text !== '' && text.length <= MAX_TEXT
}

/**
 * Returns `true` for an absolute URI of RFC 3986. The URL parser also accepts characters that a URI does not have, and IPv6
 * addresses are left out.
 */
export function isUri(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    /^[a-z][a-z\d+.-]*:(?:[\w\-.~:/?@!$&'()*+,;=]|%[\da-f]{2})+(?:#(?:[\w\-.~:/?@!$&'()*+,;=]|%[\da-f]{2})*)?$/i.test(
      value,
    ) &&
    URL.canParse(value)
  )
}

/** Returns the name of a server in reverse-DNS form. @param host the host name of its resource */
export function cardName(serverInfo: ServerInfo, host: string, values: CardValues): string {
  const name = values.name ?? serverInfo.name
  if (isCardName(name)) return name
  const labels = host.split('.').filter((label) => label !== '')
  const namespace = labels
    .reverse()
    .join('.')
    .replace(/[^a-zA-Z0-9.-]/g, '-')
    .slice(0, MAX_NAMESPACE)
  const rest = name.slice(0, MAX_NAME).replace(/[^a-zA-Z0-9._-]/gu, '-')
  return `${namespace}/${rest.slice(0, MAX_NAME - 1 - namespace.length)}`
}

/** Returns the identifier of a server in a catalog: `urn:air:<host>:mcp:<part of the name behind the slash>`. */
export function catalogIdentifier(name: string, host: string): string {
  return `urn:air:${host.replace(/[^a-z0-9.-]/gi, '-')}:mcp:${name.slice(name.indexOf('/') + 1)}`
}

/**
 * Returns the server card of SEP-2127, which is valid by its schema whatever the application gives. Values that the schema does
 * not allow are cut or left out. It never lists tools, prompts, or resources.
 * @param resource the URL of the MCP endpoint
 * @param host the host name in it
 * @param versions the protocol versions of the endpoint, the newest first
 */
export function serverCard(
  serverInfo: ServerInfo,
  resource: string,
  host: string,
  versions: readonly string[],
  values: CardValues,
): object {
  const { name, version, title, description, websiteUrl, icons } = serverInfo
  const validIcons = Array.isArray(icons) ? icons.flatMap(iconOf) : []
  return {
    $schema: SCHEMA,
    name: cardName(serverInfo, host, values),
    version: cutText(version, MAX_VERSION),
    description: values.description ?? cutText(description || title || name, MAX_TEXT),
    ...(title && { title: cutText(title, MAX_TEXT) }),
    ...(isUri(websiteUrl) && { websiteUrl }),
    ...(validIcons.length > 0 && { icons: validIcons }),
    ...(values.repository !== undefined && { repository: values.repository }),
    remotes: [{ type: 'streamable-http', url: resource, supportedProtocolVersions: versions }],
  }
}

/** Returns the members of an icon that the schema allows, or nothing if `src` is not a URI. */
function iconOf(icon: unknown): object[] {
  if (!isRecord(icon) || !isUri(icon.src)) return []
  const { src, mimeType, sizes, theme } = icon
  const hasSizes = Array.isArray(sizes) && sizes.every((size) => typeof size === 'string')
  return [
    {
      src,
      ...(typeof mimeType === 'string' && { mimeType }),
      ...(hasSizes && { sizes }),
      ...((theme === 'light' || theme === 'dark') && { theme }),
    },
  ]
}
