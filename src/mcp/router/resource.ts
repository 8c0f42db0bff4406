import type { Annotations, CacheHint, Resource, ResourceTemplateType } from '@modelcontextprotocol/server'
import { type OptionChecks, optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../../base/options/option-rules.ts'
import { type Completer, type Completers, checkCompleters } from './completers.ts'
import type { KitContext } from './context.ts'
import {
  DEFINITION_RULES,
  type DefinitionConfig,
  defined,
  objectCopy,
  readConfig,
  readDefinition,
} from './definition.ts'
import type { Wrapped } from './middleware.ts'
import { canonicalUri, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import { checkUriTemplate, type TemplateVariables, type UriMatcher } from './uris/uri-template.ts'

const checks = optionChecksOf('KitMcpRouter')
const { callable, checkFunction, checkString, invalidOption, wholeNumber } = checks

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
  readonly kind: 'resource'
  readonly definition: Resource
  /** The URI in canonical form. */
  readonly canonical: string
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
  readonly kind: 'resourceTemplate'
  readonly definition: ResourceTemplateType
  /** The template in canonical form. */
  readonly canonical: string
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

/** The rules of the options that resources, resource templates, and apps share. */
export const RESOURCE_MEMBER_RULES = {
  ...DEFINITION_RULES,
  description: optional(checkString),
  mimeType: optional(checkString),
  annotations: optional(objectCopy),
  cache: (option: string, cache: unknown) => checkCache(option, cache),
} satisfies RulesFor<ResourceMembers>

const RESOURCE_RULES = {
  ...RESOURCE_MEMBER_RULES,
  uri: unchecked(),
  size: optional(wholeNumber(0, Number.MAX_SAFE_INTEGER)),
} satisfies RulesFor<ResourceConfig>

const TEMPLATE_RULES = {
  ...RESOURCE_MEMBER_RULES,
  uriTemplate: unchecked(),
  list: optional(
    callable<NonNullable<ResourceTemplateEntry['list']>>('set it to a function (context) => resources'),
  ),
  complete: unchecked(),
} satisfies RulesFor<ResourceTemplateConfig<string>>

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function resourceEntry(
  name: string,
  config: ResourceConfig,
  handler: ResourceEntry['handler'],
): ResourceEntry {
  const read = readDefinition('resource', name, config, RESOURCE_RULES, 'uri')
  const { scopes, public: isPublic, cache, ...members } = read
  const { uri } = members
  const owner = `resource '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (uri, context) => contents`)
  const canonical = typeof uri === 'string' && uri.length <= MAX_URI_LENGTH ? canonicalUri(uri) : undefined
  if (canonical === undefined || canonical.length > MAX_URI_LENGTH)
    throw invalidOption('uri', `of ${owner} must be an absolute URI such as 'notes://today'`, uri)
  return {
    kind: 'resource',
    definition: defined({ name, ...members }) as Resource,
    canonical,
    scopes,
    isPublic,
    cache,
    handler,
  }
}

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function resourceTemplateEntry(
  name: string,
  config: ResourceTemplateConfig<string>,
  handler: ResourceTemplateEntry['handler'],
): ResourceTemplateEntry {
  const read = readDefinition('resourceTemplate', name, config, TEMPLATE_RULES, 'uriTemplate')
  const { scopes, public: isPublic, cache, list, complete, ...members } = read
  const owner = `resourceTemplate '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (uri, variables, context) => contents`)
  const matcher = checkUriTemplate(owner, members.uriTemplate)
  return {
    kind: 'resourceTemplate',
    definition: defined({ name, ...members }) as ResourceTemplateType,
    canonical: matcher.canonical,
    scopes,
    isPublic,
    cache,
    matcher,
    completers: checkCompleters(owner, complete, matcher.variableNames),
    list,
    handler,
  }
}

/** Checks a cache hint. @throws {KitMcpConfigError} if it is invalid. */
export function checkCache(option: string, cache: unknown = {}, of: OptionChecks = checks): CacheHint {
  const rules = {
    ttlMs: optional(of.wholeNumber(0)),
    cacheScope: optional(of.oneOf(['public', 'private'])),
  } satisfies RulesFor<CacheHint>
  return defined(
    readConfig(option, 'must be an object such as { ttlMs: 60_000 }', cache, rules, of),
  ) as CacheHint
}
