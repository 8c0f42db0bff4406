import type { StandardSchemaV1 } from '@standard-schema/spec'
import { quotedName } from '../../options/describe-value.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import type { KitContext } from './context.ts'
import { checkName, type DefinitionKind, renamed } from './definition.ts'
import { Entries } from './entries.ts'
import { type PromptConfig, type PromptEntry, type PromptHandler, promptEntry } from './prompt.ts'
import {
  type ResourceConfig,
  type ResourceEntry,
  type ResourceHandler,
  type ResourceTemplateConfig,
  type ResourceTemplateEntry,
  type ResourceTemplateHandler,
  resourceEntry,
  resourceTemplateEntry,
} from './resource.ts'
import { type AppContextFactory, type RouterTable, routerTable } from './router-table.ts'
import { type ArgsOf, type HandlerGiving, type ToolConfig, type ToolEntry, toolEntry } from './tool.ts'

const { checkFunction, invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

/** Reads the table of a router, and what it is made of; set by the class, which alone can see inside. */
let readTable: (router: KitMcpRouter<any>) => RouterTable
let readProps: (router: KitMcpRouter<any>) => RouterProps

interface RouterProps {
  readonly makeContext: AppContextFactory<unknown> | undefined
  readonly tools: Entries<ToolEntry>
  readonly prompts: Entries<PromptEntry>
  readonly resources: Entries<ResourceEntry>
  readonly templates: Entries<ResourceTemplateEntry>
}

/** What a compiler error says where a router does not fit into another. */
export interface KitMcpTypeError<Message extends string> {
  readonly 'mcp-gatekit': Message
}

type Fits<Given, Needed, Message extends string> = [Given] extends [Needed]
  ? unknown
  : KitMcpTypeError<Message>

/**
 * The typed router of an MCP server: tools, prompts, resources and the scopes they need. Immutable, every method
 * returns a new router. JSON Schemas, scopes and checks are computed here, so that the number of operations does not
 * change the cost of a call.
 */
export class KitMcpRouter<App = unknown, User = any> {
  readonly #props: RouterProps
  #table: RouterTable | undefined

  private constructor(props: RouterProps) {
    this.#props = props
  }

  /** An empty router. `App` is what `.context()` returns; it is inferred when not given. */
  static create<App = unknown, User = any>(): KitMcpRouter<App, User> {
    return new KitMcpRouter({
      makeContext: undefined,
      tools: Entries.empty(),
      prompts: Entries.empty(),
      resources: Entries.empty(),
      templates: Entries.empty(),
    })
  }

  /** Makes the application's data for a request. Called once per request, before the token is verified. */
  context<Made extends App>(
    make: AppContextFactory<Made>,
  ): KitMcpRouter<unknown extends App ? Made : App, User> {
    checkFunction(
      'context',
      make,
      'it returns the data that handlers and verifyToken find at context.context',
    )
    return new KitMcpRouter({ ...this.#props, makeContext: make })
  }

  /**
   * Says of what type `context.auth.user` is, for the handlers that follow; an adapter then wants a verifier that gives
   * it. `UserOf<typeof verifyToken>` is the type that a verifier gives. Does nothing at run time.
   */
  user<Verified>(): KitMcpRouter<App, Verified> {
    return new KitMcpRouter(this.#props)
  }

  /**
   * Adds a tool.
   * @param name 1 to 128 of `A-Z a-z 0-9 _ . -`, unique among the tools of this router.
   * @throws {KitMcpConfigError} for a bad or duplicate name, or a schema that gives no JSON Schema.
   */
  tool<Input extends StandardSchemaV1 | undefined = undefined, Given = unknown>(
    name: string,
    config: ToolConfig<Input, StandardSchemaV1<Given, unknown> | undefined>,
    handler: HandlerGiving<Given, ArgsOf<Input>, KitContext<App, User>>,
  ): KitMcpRouter<App, User> {
    const entry = toolEntry(name, config, handler as ToolEntry['handler'])
    return new KitMcpRouter({ ...this.#props, tools: added(this.#props.tools, 'tool', entry) })
  }

  /**
   * Adds a prompt.
   * @param name 1 to 128 of `A-Z a-z 0-9 _ . -`, unique among the prompts of this router.
   * @throws {KitMcpConfigError} for a bad or duplicate name, or a schema that gives no JSON Schema.
   */
  prompt<Input extends StandardSchemaV1 | undefined = undefined>(
    name: string,
    config: PromptConfig<Input, App, User>,
    handler: PromptHandler<App, Input, User>,
  ): KitMcpRouter<App, User> {
    const entry = promptEntry(
      name,
      config as PromptConfig<StandardSchemaV1 | undefined>,
      handler as PromptEntry['handler'],
    )
    return new KitMcpRouter({ ...this.#props, prompts: added(this.#props.prompts, 'prompt', entry) })
  }

  /**
   * Adds a resource: one fixed URI.
   * @param name 1 to 128 of `A-Z a-z 0-9 _ . -`, unique among the resources of this router, as the URI is.
   * @throws {KitMcpConfigError} for a bad or duplicate name or URI.
   */
  resource(
    name: string,
    config: ResourceConfig,
    handler: ResourceHandler<App, User>,
  ): KitMcpRouter<App, User> {
    const entry = resourceEntry(name, config, handler as ResourceEntry['handler'])
    return new KitMcpRouter({ ...this.#props, resources: added(this.#props.resources, 'resource', entry) })
  }

  /**
   * Adds the resources whose URIs a template describes (RFC 6570). Where several match, the first one added reads.
   * @param name 1 to 128 of `A-Z a-z 0-9 _ . -`, unique among the templates of this router, as the template is.
   * @throws {KitMcpConfigError} for a bad or duplicate name or template.
   */
  resourceTemplate<const Template extends string>(
    name: string,
    config: ResourceTemplateConfig<Template, App, User>,
    handler: ResourceTemplateHandler<App, Template, User>,
  ): KitMcpRouter<App, User> {
    const entry = resourceTemplateEntry(
      name,
      config as unknown as ResourceTemplateConfig<string>,
      handler as ResourceTemplateEntry['handler'],
    )
    return new KitMcpRouter({
      ...this.#props,
      templates: added(this.#props.templates, 'resourceTemplate', entry),
    })
  }

  /**
   * Adds all that another router has, with `prefix_` before every name; URIs stay as they are. Its handlers get this
   * router's context: that must be all that the other one wants, and its own `.context()` is not called.
   * @throws {KitMcpConfigError} for a name or URI that is there already, or a name that becomes too long.
   */
  merge<SubApp, SubUser>(
    prefix: string,
    router: KitMcpRouter<SubApp, SubUser> &
      Fits<App, SubApp, 'the merged router needs a context that this router does not make'> &
      Fits<User, SubUser, 'the merged router needs a user that this router does not have'>,
  ): KitMcpRouter<App, User> {
    checkName('merge', prefix)
    if (!(router instanceof KitMcpRouter))
      throw invalidKind('merge', `'${prefix}' needs a KitMcpRouter`, router)
    const other = readProps(router)
    if (other.makeContext !== undefined && this.#props.makeContext === undefined) {
      throw invalidOption('merge', `'${prefix}' needs a context: call .context() of this router first`)
    }
    return new KitMcpRouter({
      makeContext: this.#props.makeContext,
      tools: merged(this.#props.tools, 'tool', prefix, other.tools),
      prompts: merged(this.#props.prompts, 'prompt', prefix, other.prompts),
      resources: merged(this.#props.resources, 'resource', prefix, other.resources),
      templates: merged(this.#props.templates, 'resourceTemplate', prefix, other.templates),
    })
  }

  static {
    readProps = (router) => router.#props
    readTable = (router) => {
      router.#table ??= routerTable(router.#props.makeContext, {
        tools: router.#props.tools.toArray(),
        prompts: router.#props.prompts.toArray(),
        resources: router.#props.resources.toArray(),
        templates: router.#props.templates.toArray(),
      })
      return router.#table
    }
  }
}

/** The finished table of a router, made at the first call. */
export function tableOf(router: KitMcpRouter<any>): RouterTable {
  return readTable(router)
}

interface Named {
  readonly definition: { readonly name: string; readonly uri?: unknown; readonly uriTemplate?: unknown }
  /** The URI or template in canonical form. */
  readonly canonical?: string
}

function added<Entry extends Named>(
  entries: Entries<Entry>,
  kind: DefinitionKind,
  entry: Entry,
): Entries<Entry> {
  const { name, uri = entry.definition.uriTemplate } = entry.definition
  const nameKey = `name ${name}`
  if (entries.has(nameKey)) throw invalidOption(kind, `'${name}' is there already: give it another name`)
  if (uri === undefined) return entries.with([nameKey], entry)
  const uriKey = `uri ${entry.canonical ?? String(uri)}`
  if (entries.has(uriKey))
    throw invalidOption(kind, `'${name}' is of ${quotedName(String(uri))}, which is there already`)
  return entries.with([nameKey, uriKey], entry)
}

function merged<Entry extends Named>(
  entries: Entries<Entry>,
  kind: DefinitionKind,
  prefix: string,
  others: Entries<Entry>,
): Entries<Entry> {
  let all = entries
  for (const entry of others.toArray()) {
    const name = `${prefix}_${entry.definition.name}`
    checkName(kind, name)
    all = added(all, kind, { ...entry, definition: renamed(entry.definition, name) })
  }
  return all
}
