import type { Annotations, CacheHint, Resource, ResourceTemplateType } from '@modelcontextprotocol/server'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../../options/option-checks.ts'
import { type Completer, type Completers, checkCompleters } from './completers.ts'
import type { KitContext } from './context.ts'
import {
  checkDefinition,
  commonMembers,
  DEFINITION_OPTIONS,
  type DefinitionConfig,
  objectCopy,
  scopesOf,
  textMember,
} from './definition.ts'
import { canonicalUri, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import { checkUriTemplate, type TemplateVariables, type UriMatcher } from './uris/uri-template.ts'

const checks = optionChecksOf('KitMcpRouter')
const { checkFunction, invalidOption } = checks

interface ResourceMembers extends DefinitionConfig {
  /** What is in it, for the model. */
  readonly description?: string | undefined
  /** Default of what is read: `text/plain` for text, `application/octet-stream` for bytes, `application/json` for values. */
  readonly mimeType?: string | undefined
  /** Whom it is for, and how much it matters; hints, which clients may ignore. */
  readonly annotations?: Annotations | undefined
  /** How long clients of 2026-07-28 may keep what they read. Default: the adapter's `cache`. */
  readonly cache?: CacheHint | undefined
}

/** What a resource is, beside its handler. */
export interface ResourceConfig extends ResourceMembers {
  /** The absolute URI, such as `notes://today`. */
  readonly uri: string
  /** Bytes. */
  readonly size?: number | undefined
}

/**
 * Reads a resource. Returns text, bytes, any JSON value, a whole MCP result, or what `context.inputRequired()` gives;
 * undefined means that there is none. The text of a thrown `KitToolError` is shown to the client, that of any other
 * error is not.
 */
export type ResourceHandler<App, User = any> = (uri: URL, context: KitContext<App, User>) => unknown

/** A resource as a template lists it. An interface, so that compilers and editors tell it by its name. */
export interface ListedResource extends Resource {}

type Listed = readonly ListedResource[] | Promise<readonly ListedResource[]>

/** What a resource template is, beside its handler. */
export interface ResourceTemplateConfig<Template extends string, App = unknown, User = any>
  extends ResourceMembers {
  /** RFC 6570, such as `notes://{owner}/{id}`; one variable in braces, several after `?` and `&` only. */
  readonly uriTemplate: Template
  /** The resources there are now, for `resources/list`. Not asked for a token without the template's scopes. */
  readonly list?: (context: KitContext<App, User>) => Listed
  /** Suggests values, by variable. */
  readonly complete?: { readonly [Name in keyof TemplateVariables<Template>]?: Completer<App, User> }
}

/** Reads a resource of a template, as `ResourceHandler` does. Variables are percent-decoded: they may hold any character. */
export type ResourceTemplateHandler<App, Template extends string, User = any> = (
  uri: URL,
  variables: TemplateVariables<Template>,
  context: KitContext<App, User>,
) => unknown

/** A resource with everything about it that can be computed before a request. */
export interface ResourceEntry {
  readonly definition: Resource
  /** The URI in canonical form. */
  readonly canonical: string
  readonly scopes: readonly string[]
  readonly cache: CacheHint
  readonly handler: (uri: URL, context: KitContext) => unknown
}

export interface ResourceTemplateEntry {
  readonly definition: ResourceTemplateType
  /** The template in canonical form. */
  readonly canonical: string
  readonly scopes: readonly string[]
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

/** @throws {KitMcpConfigError} naming what is wrong. */
export function resourceEntry(
  name: string,
  config: ResourceConfig,
  handler: ResourceEntry['handler'],
): ResourceEntry {
  const { uri, size } = checkDefinition('resource', name, config, RESOURCE_OPTIONS, 'uri')
  const owner = `resource '${name}'`
  checkFunction('handler', handler, `${owner} needs a function (uri, context) => contents`)
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
    cache: checkCache(`cache of ${owner}`, config.cache),
    handler,
  }
}

/** @throws {KitMcpConfigError} naming what is wrong. */
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
  checkFunction('handler', handler, `${owner} needs a function (uri, variables, context) => contents`)
  if (list !== undefined) checkFunction('list', list, `${owner} lists with a function (context) => resources`)
  const matcher = checkUriTemplate(owner, uriTemplate)
  const definition = Object.freeze({ name, uriTemplate, ...membersOf(owner, config) }) as ResourceTemplateType
  return {
    definition,
    canonical: matcher.canonical,
    scopes: scopesOf(owner, config),
    cache: checkCache(`cache of ${owner}`, config.cache),
    matcher,
    completers: checkCompleters(owner, complete, matcher.variableNames),
    list,
    handler,
  }
}

function membersOf(owner: string, config: ResourceMembers): object {
  const { description, mimeType, annotations } = config
  return {
    ...commonMembers(owner, config),
    ...textMember(owner, 'description', description),
    ...textMember(owner, 'mimeType', mimeType),
    ...(annotations !== undefined && { annotations: objectCopy(`annotations of ${owner}`, annotations) }),
  }
}

/** @throws {KitMcpConfigError} */
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
