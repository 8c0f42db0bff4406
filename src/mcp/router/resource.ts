import type { Annotations, CacheHint, Resource, ResourceTemplateType } from '@modelcontextprotocol/server'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../../options/option-checks.ts'
import { type Completer, type Completers, checkCompleters } from './completers.ts'
import type { KitContext } from './context.ts'
import {
  checkDefinition,
  commonMembers,
  DEFINITION_OPTIONS,
  type DefinitionConfig,
  isPublic,
  objectCopy,
  scopesOf,
  textMember,
} from './definition.ts'
import type { Wrapped } from './middleware.ts'
import { canonicalUri, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import { checkUriTemplate, type TemplateVariables, type UriMatcher } from './uris/uri-template.ts'

const checks = optionChecksOf('KitMcpRouter')
const { checkFunction, invalidOption } = checks

/** The options that resources and resource templates share. */
export interface ResourceMembers extends DefinitionConfig {
  /** The content of the resource, for the model. */
  readonly description?: string | undefined
  /**
   * The MIME type. Defaults to `text/plain` for strings, `application/octet-stream` for bytes, and `application/json` for
   * other values.
   */
  readonly mimeType?: string | undefined
  /** The audience and the priority of the resource. Clients may ignore these hints. */
  readonly annotations?: Annotations | undefined
  /** The time for which clients of 2026-07-28 may cache the content. Defaults to the adapter's `cache`. */
  readonly cache?: CacheHint | undefined
}

/** The options of a resource. */
export interface ResourceConfig extends ResourceMembers {
  /** The absolute URI, such as `notes://today`. */
  readonly uri: string
  /** The size in bytes. */
  readonly size?: number | undefined
}

/**
 * The handler of a resource. It returns a string, bytes, any JSON value, a complete MCP result, or the result of
 * `context.inputRequired()`. `undefined` means that the resource does not exist. The client receives the message of a thrown
 * `KitToolError`, but not the message of any other error.
 */
export type ResourceHandler<App, User = any> = (uri: URL, context: KitContext<App, User>) => unknown

/** A resource in the list of a template. It is an interface so that compilers and editors show its name. */
export interface ListedResource extends Resource {}

type Listed = readonly ListedResource[] | Promise<readonly ListedResource[]>

/** The options of a resource template. */
export interface ResourceTemplateConfig<Template extends string, App = unknown, User = any>
  extends ResourceMembers {
  /**
   * The URI template (RFC 6570), such as `notes://{owner}/{id}`. An expression has one variable; only `?` and `&` allow
   * several.
   */
  readonly uriTemplate: Template
  /** Returns the current resources for `resources/list`. Not called for a token without the template's scopes. */
  readonly list?: (context: KitContext<App, User>) => Listed
  /** Functions that suggest values, by variable. */
  readonly complete?: { readonly [Name in keyof TemplateVariables<Template>]?: Completer<App, User> }
}

/**
 * The handler of a resource template. It returns the same values as a `ResourceHandler`. Variables are percent-decoded,
 * so they may contain any character.
 */
export type ResourceTemplateHandler<App, Template extends string, User = any> = (
  uri: URL,
  variables: TemplateVariables<Template>,
  context: KitContext<App, User>,
) => unknown

/** A resource, with everything that can be computed before a request. */
export interface ResourceEntry extends Wrapped {
  readonly definition: Resource
  /** The URI in canonical form. */
  readonly canonical: string
  readonly scopes: readonly string[]
  readonly isPublic: boolean
  readonly cache: CacheHint
  readonly handler: (uri: URL, context: KitContext) => unknown
  /** Set for apps. */
  readonly app?: {
    /** The metadata of the content. Undefined if there is none. */
    readonly meta: Readonly<Record<string, unknown>> | undefined
    /** `true` if the scopes are those of its tools. */
    readonly inheritsScopes: boolean
    /** `true` if the app is public if one of its tools is. */
    readonly inheritsPublic: boolean
  }
}

/** A resource template, with everything that can be computed before a request. */
export interface ResourceTemplateEntry extends Wrapped {
  readonly definition: ResourceTemplateType
  /** The template in canonical form. */
  readonly canonical: string
  readonly scopes: readonly string[]
  readonly isPublic: boolean
  readonly cache: CacheHint
  readonly matcher: UriMatcher
  readonly completers: Completers | undefined
  readonly list: ((context: KitContext) => Listed) | undefined
  readonly handler: (
    uri: URL,
    variables: Readonly<Record<string, string | string[]>>,
    context: KitContext,
  ) => unknown
}

const SHARED_OPTIONS = [...DEFINITION_OPTIONS, 'description', 'mimeType', 'annotations', 'cache']
const RESOURCE_OPTIONS = [...SHARED_OPTIONS, 'uri', 'size']
const TEMPLATE_OPTIONS = [...SHARED_OPTIONS, 'uriTemplate', 'list', 'complete']

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function resourceEntry(
  name: string,
  config: ResourceConfig,
  handler: ResourceEntry['handler'],
): ResourceEntry {
  const { uri, size } = checkDefinition('resource', name, config, RESOURCE_OPTIONS, 'uri')
  const owner = `resource '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (uri, context) => contents`)
  const canonical = typeof uri === 'string' && uri.length <= MAX_URI_LENGTH ? canonicalUri(uri) : undefined
  if (canonical === undefined || canonical.length > MAX_URI_LENGTH) {
    throw invalidOption('uri', `of ${owner} must be an absolute URI such as 'notes://today'`, uri)
  }
  if (size !== undefined && !(Number.isSafeInteger(size) && size >= 0)) {
    throw invalidOption('size', `of ${owner} must be a whole number of bytes`, size)
  }
  const definition = Object.freeze({
    name,
    uri,
    ...membersOf(owner, config),
    ...(size !== undefined && { size }),
  }) as Resource
  return {
    definition,
    canonical,
    scopes: scopesOf(owner, config),
    isPublic: isPublic(owner, config),
    cache: checkCache(`cache of ${owner}`, config.cache),
    handler,
  }
}

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function resourceTemplateEntry(
  name: string,
  config: ResourceTemplateConfig<string>,
  handler: ResourceTemplateEntry['handler'],
): ResourceTemplateEntry {
  const { uriTemplate, list, complete } = checkDefinition(
    'resourceTemplate',
    name,
    config,
    TEMPLATE_OPTIONS,
    'uriTemplate',
  )
  const owner = `resourceTemplate '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (uri, variables, context) => contents`)
  if (list !== undefined) checkFunction('list', list, `give ${owner} a function (context) => resources`)
  const matcher = checkUriTemplate(owner, uriTemplate)
  const definition = Object.freeze({ name, uriTemplate, ...membersOf(owner, config) }) as ResourceTemplateType
  return {
    definition,
    canonical: matcher.canonical,
    scopes: scopesOf(owner, config),
    isPublic: isPublic(owner, config),
    cache: checkCache(`cache of ${owner}`, config.cache),
    matcher,
    completers: checkCompleters(owner, complete, matcher.variableNames),
    list,
    handler,
  }
}

/** Returns copies of the members that all resources share. */
export function membersOf(owner: string, config: ResourceMembers): object {
  const { description, mimeType, annotations } = config
  return {
    ...commonMembers(owner, config),
    ...textMember(owner, 'description', description),
    ...textMember(owner, 'mimeType', mimeType),
    ...(annotations !== undefined && { annotations: objectCopy(`annotations of ${owner}`, annotations) }),
  }
}

/** Checks a cache hint. @throws {KitMcpConfigError} if it is invalid. */
export function checkCache(
  option: string,
  cache: unknown,
  { checkKnownOptions, checkOneOf, checkWholeNumber, invalidKind }: OptionChecks = checks,
): CacheHint {
  if (cache === undefined) return {}
  if (!isOptionsObject(cache)) throw invalidKind(option, 'must be an object such as { ttlMs: 60_000 }', cache)
  checkKnownOptions(option, cache, ['ttlMs', 'cacheScope'])
  const { ttlMs, cacheScope } = cache as Partial<Record<keyof CacheHint, unknown>>
  if (ttlMs !== undefined) checkWholeNumber(`ttlMs of ${option}`, ttlMs, 0)
  if (cacheScope !== undefined) checkOneOf(`cacheScope of ${option}`, cacheScope, ['public', 'private'])
  return { ...(cache as CacheHint) }
}
