import type { Annotations, CacheHint, Resource } from '@modelcontextprotocol/server'
import { KitMcpConfigError } from '../../../base/options/config-error.ts'
import { isOptionsObject, optionChecksOf } from '../../../base/options/option-checks.ts'
import {
  type OptionRule,
  type OptionRules,
  optional,
  type RulesFor,
  unchecked,
} from '../../../base/options/option-rules.ts'
import { builtinModule, utf8Length } from '../../../base/runtime.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import { type DefinitionConfig, defined, readConfig, readDefinition } from '../definition.ts'
import { RESOURCE_MEMBER_RULES, type ResourceEntry } from '../resource.ts'
import { canonicalUri, MAX_URI_LENGTH } from '../uris/canonical-uri.ts'

const checks = optionChecksOf('KitMcpRouter')
const { checkBoolean, fitting, fittingKind, invalidKind, invalidOption, items, oneOf } = checks
const { unusableOption, wholeNumber } = checks

/** The identifier of the MCP Apps extension. */
export const APPS_EXTENSION = 'io.modelcontextprotocol/ui'

/** The MIME type of apps. */
export const APP_MIME_TYPE = 'text/html;profile=mcp-app'

/** The key of the URI in the metadata of a tool, for hosts of the drafts before 2026-01-26. */
export const OLD_URI_META_KEY = 'ui/resourceUri'

/**
 * The origins that an app may use, from which hosts build its Content Security Policy. An origin is a scheme and a host, such
 * as `https://api.example.com`. A host may begin with `*.`. Without an origin, an app has no access to the network.
 */
export interface McpAppCsp {
  /** The origins of `fetch`, `XMLHttpRequest`, and `WebSocket`. */
  readonly connectDomains?: readonly string[] | undefined
  /** The origins of scripts, styles, images, fonts, and media. */
  readonly resourceDomains?: readonly string[] | undefined
  /** The origins of nested frames. */
  readonly frameDomains?: readonly string[] | undefined
  /** The origins of the base URI of the document. */
  readonly baseUriDomains?: readonly string[] | undefined
}

/** The browser features that an app asks for, each as an empty object. Hosts may deny them. */
export interface McpAppPermissions {
  /** The camera. */
  readonly camera?: Readonly<Record<string, never>> | undefined
  /** The microphone. */
  readonly microphone?: Readonly<Record<string, never>> | undefined
  /** The position of the device. */
  readonly geolocation?: Readonly<Record<string, never>> | undefined
  /** Writing to the clipboard. */
  readonly clipboardWrite?: Readonly<Record<string, never>> | undefined
}

/** The options of an app. */
export interface McpAppConfig extends DefinitionConfig {
  /** The HTML document. Set this or `file`. */
  readonly html?: string | undefined
  /** The path of the HTML document in UTF-8, which is read once when the app is added. Set this or `html`. */
  readonly file?: string | URL | undefined
  /** The maximum size of the document in bytes. Defaults to 1 048 576 bytes. */
  readonly maxBytes?: number | undefined
  /** The URI of the app, in canonical form and with the scheme `ui:`. Defaults to `ui://` and the name. */
  readonly uri?: string | undefined
  /**
   * The scopes that reading the app needs in addition to those of the endpoint. Defaults to the scopes of one of its tools,
   * which must be part of the scopes of the others.
   * @see docs/guides/apps.md
   */
  readonly scopes?: readonly string[] | undefined
  /**
   * Opens the app to requests without a token if the OAuth option `anonymous` is `true`; otherwise it has no effect. Must not be
   * set together with `scopes`. By default, an app without `scopes` is public if one of its tools is.
   */
  readonly public?: boolean | undefined
  /** The purpose of the app. */
  readonly description?: string | undefined
  /** The origins that the app may use. By default, the app has no access to the network. */
  readonly csp?: McpAppCsp | undefined
  /** The browser features that the app asks for. By default, it asks for none. */
  readonly permissions?: McpAppPermissions | undefined
  /** The domain at which the host should run the app. Its form depends on the host. By default, the host chooses it. */
  readonly domain?: string | undefined
  /** Asks the host for a border and a background. By default, the host decides. */
  readonly prefersBorder?: boolean | undefined
  /** The audience and the priority of the resource. Clients may ignore these hints. */
  readonly annotations?: Annotations | undefined
  /** The time for which clients of 2026-07-28 may cache the document. Defaults to the adapter's `cache`. */
  readonly cache?: CacheHint | undefined
}

/** The callers for which a tool is visible: the model, the apps of this server, or both. */
export type ToolVisibility = 'model' | 'app'

const VISIBILITIES: readonly ToolVisibility[] = ['model', 'app']

/** The rule of the option `visibility` of a tool. */
export const checkVisibility: OptionRule<readonly ToolVisibility[]> = items(
  `must be an array of 'model', 'app', or both`,
  oneOf(VISIBILITIES),
  1,
)

/** A scheme, a host that may begin with `*.`, and a port. Hosts put origins into a Content Security Policy unchanged. */
const ORIGIN = /^(?:https?|wss?):\/\/(?:\*\.)?[A-Za-z0-9.-]{1,253}(?::\d{1,5})?$/
const DOMAIN = /^[A-Za-z0-9.:/_-]{1,253}$/

const origin = fitting<string>(
  (value) => typeof value === 'string' && ORIGIN.test(value) && URL.canParse(value.replace('*.', '')),
  `must contain only origins such as 'https://api.example.com' or 'https://*.example.com'`,
  'Remove paths, spaces, quotes, and keywords.',
)
const origins = optional(items('must be an array of origins', origin))

/** The rules of the origins that an app may use. */
export const CSP_RULES = {
  connectDomains: origins,
  resourceDomains: origins,
  frameDomains: origins,
  baseUriDomains: origins,
} satisfies RulesFor<McpAppCsp>

const permission = optional(
  fittingKind<object>(
    (value) => isOptionsObject(value) && Object.keys(value).length === 0,
    'must be an empty object',
    'Set it to {} to ask for the feature, or remove it.',
  ),
)

/** The rules of the browser features that an app may ask for. */
export const PERMISSION_RULES = {
  camera: permission,
  microphone: permission,
  geolocation: permission,
  clipboardWrite: permission,
} satisfies RulesFor<McpAppPermissions>

/** The rule of an object whose members are named `camera of permissions of app 'chart'` in errors. */
const objectOf =
  (example: string, rules: OptionRules): OptionRule<object> =>
  (option, value) =>
    defined(readConfig(option, `must be an object such as ${example}`, value, rules))

const { mimeType: _mimeType, ...MEMBER_RULES } = RESOURCE_MEMBER_RULES

const APP_RULES = {
  ...MEMBER_RULES,
  html: unchecked(),
  file: unchecked(),
  maxBytes: optional(wholeNumber(1), 1_048_576),
  uri: optional(checkUri),
  csp: optional(objectOf(`{ connectDomains: ['https://api.example.com'] }`, CSP_RULES)),
  permissions: optional(objectOf('{ camera: {} }', PERMISSION_RULES)),
  domain: optional(
    fitting<string>(
      (value) => typeof value === 'string' && DOMAIN.test(value),
      'must be a domain without spaces and quotes',
      'See the documentation of the host for its form.',
    ),
  ),
  prefersBorder: optional(checkBoolean),
} satisfies RulesFor<McpAppConfig>

/**
 * Returns the resource of an app.
 * @throws {KitMcpConfigError} if the name or an option is invalid, or if the document cannot be read.
 */
export function appEntry(name: string, config: McpAppConfig): ResourceEntry {
  const read = readDefinition('app', name, config, APP_RULES, 'html')
  const { title, icons, description, annotations, csp, permissions, domain, prefersBorder } = read
  const owner = `app '${name}'`
  const uri = read.uri ?? checkUri(`uri of ${owner}`, `ui://${name}`)
  const html = documentOf(owner, config, read.maxBytes)
  if (read._meta !== undefined && 'ui' in read._meta)
    throw unusableOption(
      `_meta of ${owner}`,
      `must not contain 'ui', which the options of the app set`,
      'Set csp, permissions, domain, and prefersBorder instead.',
    )
  const ui = ifNotEmpty(defined({ csp, permissions, domain, prefersBorder }))
  const _meta = ifNotEmpty(defined({ ...read._meta, ui }))
  const mimeType = APP_MIME_TYPE
  const size = utf8Length(html)
  return {
    kind: 'resource',
    definition: defined({
      name,
      uri,
      title,
      icons,
      description,
      annotations,
      mimeType,
      size,
      _meta,
    }) as Resource,
    canonical: uri,
    scopes: read.scopes,
    isPublic: read.public,
    cache: read.cache,
    handler: () => html,
    app: {
      meta: _meta,
      inheritsScopes: config.scopes === undefined && config.public !== true,
      inheritsPublic: config.scopes === undefined && config.public === undefined,
    },
  }
}

function ifNotEmpty<Members extends object>(members: Members): Members | undefined {
  return Object.keys(members).length > 0 ? members : undefined
}

function checkUri(option: string, uri: unknown): string {
  const canonical = typeof uri === 'string' && uri.length <= MAX_URI_LENGTH ? canonicalUri(uri) : undefined
  if (typeof uri === 'string' && canonical === uri && /^ui:\/\/[^/?#]/.test(uri)) return uri
  throw invalidOption(
    option,
    `must be a URI in canonical form that begins with 'ui://', such as 'ui://chart'`,
    uri,
    canonical?.startsWith('ui://') === true && canonical !== uri ? `Set it to '${canonical}'` : undefined,
  )
}

function documentOf(owner: string, { html, file }: McpAppConfig, limit: number): string {
  if (html !== undefined && file !== undefined)
    throw unusableOption(`file of ${owner}`, 'must not be set together with html', 'Remove one of them.')
  if (file !== undefined) return checkHtml(`file of ${owner}`, readDocument(`file of ${owner}`, file, limit))
  if (typeof html !== 'string')
    throw invalidKind(
      `html of ${owner}`,
      'must be an HTML document, unless file is set',
      html,
      'Set html to the document, or file to its path.',
    )
  if (utf8Length(html) > limit) throw tooLarge(`html of ${owner}`, limit)
  return checkHtml(`html of ${owner}`, html, 'To read the document from a file, set file to its path.')
}

/** Reads a regular file. Reading a named pipe would wait for another process. */
function readDocument(option: string, file: unknown, maxBytes: number): string {
  if (!(file instanceof URL) && (typeof file !== 'string' || file === ''))
    throw invalidOption(option, 'must be the path of an HTML file, as a string or a URL', file)
  const fs = builtinModule('node:fs')
  if (fs === undefined) throw unusableOption(option, 'cannot be read in this runtime', 'Set html instead.')
  let bytes: Uint8Array
  try {
    const stats = fs.statSync(file)
    if (!stats.isFile()) throw invalidOption(option, 'must be a regular file', String(file))
    if (stats.size > maxBytes) throw tooLarge(option, maxBytes)
    bytes = fs.readFileSync(file)
  } catch (cause) {
    if (cause instanceof KitMcpConfigError) throw cause
    const { code = 'unknown error' } = cause as NodeJS.ErrnoException
    throw invalidOption(option, `must be a file that can be read (${code})`, String(file))
  }
  const text = tryOrUndefined(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  if (text === undefined) throw invalidOption(option, 'must be a file in UTF-8', String(file))
  return text
}

function tooLarge(option: string, maxBytes: number): Error {
  return unusableOption(
    option,
    `must not have more than ${maxBytes} bytes`,
    'Make the document smaller, or raise maxBytes.',
  )
}

function checkHtml(option: string, html: string, fix?: string): string {
  if (html.includes('<')) return html
  throw invalidKind(option, 'must be an HTML document, which contains tags', html, fix)
}
