import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { appEntry, type McpAppConfig } from './apps/app.ts'
import type { KitContext } from './context.ts'
import { checkName } from './definition.ts'
import { prefixed, type RouterEntry, withEntry } from './entries.ts'
import { type EventConfig, type EventType, eventEntry, type PrefixedEvents } from './event.ts'
import type { Middleware } from './middleware.ts'
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
import { type LoadedSkills, type SkillsConfig, skillEntries } from './skills.ts'
import { type ArgsOf, type HandlerGiving, type ToolConfig, type ToolEntry, toolEntry } from './tool.ts'

const { checkFunction, invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

/** Reads the private members of a router. The class sets it. */
let propsOf: (router: KitMcpRouter<any>) => RouterProps

interface RouterProps {
  readonly makeContext: AppContextFactory<unknown> | undefined
  readonly entries: readonly RouterEntry[]
  /** Outermost first. */
  readonly middleware: readonly Middleware<any>[]
}

/** The message of a compiler error if a router does not fit into another. */
export interface KitMcpTypeError<Message extends string> {
  readonly 'mcp-gatekit': Message
}

type Fits<Given, Needed, Message extends string> = [Given] extends [Needed]
  ? unknown
  : KitMcpTypeError<Message>

/**
 * The typed router of an MCP server: its tools, prompts, and resources, and the scopes that they need. It is immutable: every
 * method returns a new router. JSON Schemas and scopes are computed when an operation is added, so the cost of a call does
 * not depend on the number of operations.
 * @example
 * ```ts
 * import { KitMcpRouter } from 'mcp-gatekit'
 * import { z } from 'zod'
 *
 * export const router = KitMcpRouter.create()
 *   .tool('greet', { description: 'Greets a person', input: z.object({ name: z.string() }) }, ({ name }) => `Hello, ${name}`)
 *   .tool('wipe', { description: 'Deletes all notes', scopes: ['notes:admin'] }, () => 'done')
 *   .resource('today', { uri: 'notes://today' }, () => 'Buy milk')
 * ```
 * @see docs/reference/mcp.md
 */
export class KitMcpRouter<App = unknown, User = any, Events = any> {
  readonly #props: RouterProps

  private constructor(props: RouterProps) {
    this.#props = props
  }

  /**
   * Returns an empty router. `App` is the type that `.context()` returns; it is inferred if it is not given.
   * @returns a router without operations.
   */
  static create<App = unknown, User = any>(): KitMcpRouter<App, User, object> {
    return new KitMcpRouter({ makeContext: undefined, entries: [], middleware: [] })
  }

  #with(added: readonly RouterEntry[]): KitMcpRouter<App, User, any> {
    const entries = added.reduce(withEntry, this.#props.entries)
    return new KitMcpRouter({ ...this.#props, entries })
  }

  /**
   * Sets the function that creates the application's data for a request. It is called once per request, before the token is
   * verified.
   * @param make returns the data, which handlers and `verifyToken` find at `context.context`.
   * @returns a new router.
   * @throws {KitMcpConfigError} if `make` is not a function.
   */
  context<Made extends App>(
    make: AppContextFactory<Made>,
  ): KitMcpRouter<unknown extends App ? Made : App, User, Events> {
    checkFunction('context', make, 'set it to a function that returns the data for context.context')
    return new KitMcpRouter({ ...this.#props, makeContext: make })
  }

  /**
   * Sets the type of `context.auth.user` for the handlers that are added afterwards. An adapter then requires a verifier that
   * returns this type. Has no effect at run time.
   * @returns a new router. Use `UserOf<typeof verifyToken>` for the type that a verifier returns.
   */
  user<Verified>(): KitMcpRouter<App, Verified, Events> {
    return new KitMcpRouter(this.#props)
  }

  /**
   * Adds a tool.
   * @param name 1 to 128 characters of `A-Z a-z 0-9 _ . -`, unique among the tools of this router.
   * @param config the description, the schemas, and the scopes.
   * @param handler receives the parsed arguments and the context. It returns a string, any JSON value, or a complete MCP
   * result.
   * @returns a new router.
   * @throws {KitMcpConfigError} if the name is invalid or already registered, or if a schema does not provide a JSON Schema.
   */
  tool<Input extends StandardSchemaV1 | undefined = undefined, Given = unknown>(
    name: string,
    config: ToolConfig<Input, StandardSchemaV1<Given, unknown> | undefined>,
    handler: HandlerGiving<Given, ArgsOf<Input>, KitContext<App, User>>,
  ): KitMcpRouter<App, User, Events> {
    return this.#with([toolEntry(name, config, handler as ToolEntry['handler'])])
  }

  /**
   * Adds a prompt.
   * @param name 1 to 128 characters, unique among the prompts of this router.
   * @param config the description, the schema of the arguments, and the scopes.
   * @param handler receives the parsed arguments and the context. It returns a string, messages, or a complete MCP result.
   * @returns a new router.
   * @throws {KitMcpConfigError} if the name is invalid or already registered, or if a schema does not provide a JSON Schema.
   */
  prompt<Input extends StandardSchemaV1 | undefined = undefined>(
    name: string,
    config: PromptConfig<Input, App, User>,
    handler: PromptHandler<App, Input, User>,
  ): KitMcpRouter<App, User, Events> {
    const entry = promptEntry(
      name,
      config as PromptConfig<StandardSchemaV1 | undefined>,
      handler as PromptEntry['handler'],
    )
    return this.#with([entry])
  }

  /**
   * Adds a resource with a fixed URI.
   * @param name 1 to 128 characters, unique among the resources of this router.
   * @param config the URI, which must be unique too, the description, and the scopes.
   * @param handler receives the URI and the context. It returns a string, bytes, any JSON value, or a complete MCP result.
   * @returns a new router.
   * @throws {KitMcpConfigError} if the name or the URI is invalid or already registered.
   */
  resource(
    name: string,
    config: ResourceConfig,
    handler: ResourceHandler<App, User>,
  ): KitMcpRouter<App, User, Events> {
    return this.#with([resourceEntry(name, config, handler as ResourceEntry['handler'])])
  }

  /**
   * Adds an app: an HTML document that hosts show in a sandboxed frame for the results of the tools that name it in their option
   * `app`. Clients read it as a resource. Unless `scopes` or `public` is set, everyone who may call one of its tools may read
   * it.
   * @param name 1 to 128 characters of `A-Z a-z 0-9 _ . -`, unique among the apps and resources of this router.
   * @param config the document, and what it needs from the host.
   * @returns a new router.
   * @throws {KitMcpConfigError} if an option is invalid, if the file cannot be read or is too large, or if the name or the URI
   * is already registered.
   * @example
   * ```ts
   * import { KitMcpRouter } from 'mcp-gatekit'
   *
   * export const router = KitMcpRouter.create()
   *   .app('clock', { html: '<!doctype html><title>Clock</title><p>Noon</p>' })
   *   .tool('time', { description: 'Returns the time', app: 'clock' }, () => new Date().toISOString())
   * ```
   * @see docs/guides/apps.md
   */
  app(name: string, config: McpAppConfig): KitMcpRouter<App, User, Events> {
    return this.#with([appEntry(name, config)])
  }

  /**
   * Adds the resources whose URIs match a template. If several templates match, the one that was added first is used.
   * @param name 1 to 128 characters, unique among the templates of this router.
   * @param config the URI template, which must be unique too, the description, and the scopes.
   * @param handler receives the URI, the variables, and the context. It returns a string, bytes, any JSON value, or a complete
   * MCP result.
   * @returns a new router.
   * @throws {KitMcpConfigError} if the name or the template is invalid or already registered.
   * @see https://www.rfc-editor.org/rfc/rfc6570
   */
  resourceTemplate<const Template extends string>(
    name: string,
    config: ResourceTemplateConfig<Template, App, User>,
    handler: ResourceTemplateHandler<App, Template, User>,
  ): KitMcpRouter<App, User, Events> {
    const entry = resourceTemplateEntry(
      name,
      config as unknown as ResourceTemplateConfig<string>,
      handler as ResourceTemplateEntry['handler'],
    )
    return this.#with([entry])
  }

  /**
   * Adds the skills of a folder (SEP-2640), which `loadSkills` of `mcp-gatekit/skills` has read. Clients find them with
   * `skills/list` and `skills/get`, and read their files as resources.
   * @param skills the result of `await loadSkills()`.
   * @param config the scopes that the skills need.
   * @returns a new router.
   * @throws {KitMcpConfigError} if an argument is invalid, or if a skill has the name or a URI of a resource or of another skill.
   * @example
   * ```ts
   * import { KitMcpRouter } from 'mcp-gatekit'
   * import { loadSkills } from 'mcp-gatekit/skills'
   *
   * const skills = await loadSkills(new URL('./skills', import.meta.url))
   * export const router = KitMcpRouter.create().skills(skills, { scopes: ['skills:read'] })
   * ```
   * @see docs/guides/skills.md
   */
  skills(skills: LoadedSkills, config: SkillsConfig = {}): KitMcpRouter<App, User, Events> {
    return this.#with(skillEntries(skills, config))
  }

  /**
   * Adds an event type (SEP-3415). Clients subscribe to it, and `adapter.events.emit(name, data)` sends an event.
   * @param name 1 to 128 characters of `A-Z a-z 0-9 _ . -`, unique among the event types of this router.
   * @param config the description, the schemas of arguments and data, the scopes, and the deliveries.
   * @returns a new router.
   * @throws {KitMcpConfigError} if the name is invalid or already registered, or if an option is invalid.
   * @example
   * ```ts
   * import { createMcpAdapter, KitMcpRouter } from 'mcp-gatekit'
   * import { z } from 'zod'
   *
   * const router = KitMcpRouter.create().event('order.paid', {
   *   description: 'An order was paid',
   *   payload: z.object({ orderId: z.string() }),
   * })
   * const adapter = createMcpAdapter({ router })
   * await adapter.events.emit('order.paid', { orderId: 'A-17' })
   * ```
   * @see docs/guides/events.md
   */
  event<
    Payload extends StandardSchemaV1,
    Input extends StandardSchemaV1 | undefined = undefined,
    const Name extends string = string,
  >(
    name: Name,
    config: EventConfig<Input, Payload>,
  ): KitMcpRouter<App, User, Events & Record<Name, EventType<Payload, Input>>> {
    return this.#with([
      eventEntry(name, config as EventConfig<StandardSchemaV1 | undefined, StandardSchemaV1>),
    ])
  }

  /**
   * Adds middleware around every tool call, prompt get, and resource read of this router and of the routers that are merged
   * into it, also of operations that are added later. It runs after scopes, policy, and validation, in the order in which it is
   * added, the first outermost. The middleware of a merged router runs inside that of this router.
   * @param middleware receives the call, and `next`, which runs the remaining middleware and the handler. It returns the result
   * of `next()`, or another MCP result.
   * @returns a new router.
   * @throws {KitMcpConfigError} if `middleware` is not a function.
   * @example
   * ```ts
   * import { KitMcpRouter } from 'mcp-gatekit'
   *
   * export const router = KitMcpRouter.create()
   *   .use(async (call, next) => {
   *     const startedAt = performance.now()
   *     try {
   *       return await next()
   *     } finally {
   *       console.log(`${call.kind} ${call.name}: ${performance.now() - startedAt} ms`)
   *     }
   *   })
   *   .tool('ping', { description: 'Replies with pong' }, () => 'pong')
   * ```
   * @see docs/guides/middleware.md
   */
  use(middleware: Middleware<App, User>): KitMcpRouter<App, User, Events> {
    checkFunction('use', middleware, 'set it to a function (call, next) => next()')
    return new KitMcpRouter({ ...this.#props, middleware: [...this.#props.middleware, middleware] })
  }

  /**
   * Adds all operations of another router. Their handlers receive the context of this router; the other router's `.context()`
   * is not called.
   * @param prefix is put before every name, followed by `_`, also before the names of apps in tools. URIs do not change.
   * @param router the other router. The context of this router must fit its handlers.
   * @returns a new router.
   * @throws {KitMcpConfigError} if a name or a URI is already registered, or if a name becomes too long.
   */
  merge<SubApp, SubUser, SubEvents, const Prefix extends string = string>(
    prefix: Prefix,
    router: KitMcpRouter<SubApp, SubUser, SubEvents> &
      Fits<App, SubApp, 'the merged router needs a context that this router does not make'> &
      Fits<User, SubUser, 'the merged router needs a user that this router does not have'>,
  ): KitMcpRouter<App, User, Events & PrefixedEvents<Prefix, SubEvents>> {
    checkName('merge', prefix)
    if (!(router instanceof KitMcpRouter))
      throw invalidKind('merge', `'${prefix}' needs a KitMcpRouter`, router)
    const { makeContext, entries, middleware } = propsOf(router)
    if (makeContext !== undefined && this.#props.makeContext === undefined)
      throw invalidOption('merge', `'${prefix}' needs a context. Call .context() of this router first`)
    return this.#with(entries.map((entry) => prefixed(entry, prefix, middleware)))
  }

  static {
    propsOf = (router) => router.#props
  }
}

/** Returns the lookup tables of a router. @throws {KitMcpConfigError} if an app and its tools do not fit. */
export function tableOf(router: KitMcpRouter<any>): RouterTable {
  const { makeContext, entries, middleware } = propsOf(router)
  return routerTable(makeContext, entries, middleware)
}
