import type { ServerCapabilities } from '@modelcontextprotocol/server'
import { unionOfScopes } from '../../oauth/scope.ts'
import { APPS_EXTENSION } from './apps/app.ts'
import { linkedApps } from './apps/app-links.ts'
import type { EntryOf, RouterEntry } from './entries.ts'
import type { EventEntry } from './event.ts'
import { composedMiddleware, type Middleware } from './middleware.ts'
import type { PromptEntry } from './prompt.ts'
import type { ResourceEntry, ResourceTemplateEntry } from './resource.ts'
import { SKILLS_CAPABILITY, type SkillTables, skillResources, skillTables } from './skills.ts'
import type { ToolEntry } from './tool.ts'
import { scopesOfUri } from './uris/uri-scopes.ts'

/** The name of the extension of events (SEP-3415). */
export const EVENTS_EXTENSION = 'io.modelcontextprotocol/events'

/** Creates the application's data for a request. It is the argument of `KitMcpRouter…context()`. */
export type AppContextFactory<App> = (input: { readonly request: Request }) => App | Promise<App>

/** The lookup tables of a router. The adapter creates them once. */
export interface RouterTable extends SkillTables {
  readonly makeContext: AppContextFactory<unknown> | undefined
  readonly tools: ReadonlyMap<string, ToolEntry>
  readonly prompts: ReadonlyMap<string, PromptEntry>
  /** The resources by canonical URI. The scopes of each include those of the templates that match it. */
  readonly resources: ReadonlyMap<string, ResourceEntry>
  /** The resources of `resources/list`: of the files of a skill, only `SKILL.md`. */
  readonly listedResources: ReadonlyMap<string, ResourceEntry>
  readonly templates: readonly ResourceTemplateEntry[]
  readonly events: ReadonlyMap<string, EventEntry>
  readonly capabilities: ServerCapabilities
  /** `true` if a tool has arguments that are repeated in headers. */
  readonly declaresHeaders: boolean
  /** `true` if a tool runs as a task. */
  readonly hasTasks: boolean
  /** Every scope that any operation names. */
  readonly scopes: readonly string[]
}

/** @throws {KitMcpConfigError} if an app and its tools do not fit. */
export function routerTable(
  makeContext: AppContextFactory<unknown> | undefined,
  entries: readonly RouterEntry[],
  middleware: readonly Middleware<any>[],
): RouterTable {
  const wrapped = entries.map((entry) => {
    const around = composedMiddleware([...middleware, ...(entry.merged ?? [])])
    return around === undefined ? entry : { ...entry, around }
  })
  const ofKind = <Kind extends RouterEntry['kind']>(kind: Kind): EntryOf<Kind>[] =>
    wrapped.filter((entry): entry is EntryOf<Kind> => entry.kind === kind)
  const [prompts, templates] = [ofKind('prompt'), ofKind('resourceTemplate')]
  const [skills, events] = [ofKind('skills'), ofKind('event')]
  const { tools, resources: own } = linkedApps({ tools: ofKind('tool'), resources: ofKind('resource') })
  const files = skills.map(skillResources)
  const resources = [...own, ...files.flat()]
  const hasApps = own.some(({ app }) => app !== undefined)
  const hasResources = resources.length > 0 || templates.length > 0
  const completes = [...prompts, ...templates].some(({ completers }) => completers !== undefined)
  const byUri = resourcesByUri(resources, templates)
  const unlisted = new Set(files.flatMap(([, ...others]) => others.map(({ canonical }) => canonical)))
  return {
    makeContext,
    tools: byName(tools),
    prompts: byName(prompts),
    resources: byUri,
    listedResources: new Map([...byUri].filter(([uri]) => !unlisted.has(uri))),
    templates,
    events: byName(events),
    ...skillTables(skills, byUri),
    capabilities: Object.freeze({
      logging: {},
      ...((tools.length > 0 || (prompts.length === 0 && !hasResources && events.length === 0)) && {
        tools: { listChanged: true },
      }),
      ...(prompts.length > 0 && { prompts: { listChanged: true } }),
      ...(hasResources && { resources: { listChanged: true, subscribe: true } }),
      ...(completes && { completions: {} }),
      // Clients of today read either.
      ...(events.length > 0 && { events: {} }),
      ...((hasApps || skills.length > 0 || events.length > 0) && {
        extensions: {
          ...(skills.length > 0 && SKILLS_CAPABILITY.extensions),
          ...(hasApps && { [APPS_EXTENSION]: {} }),
          ...(events.length > 0 && { [EVENTS_EXTENSION]: {} }),
        },
      }),
    }),
    declaresHeaders: tools.some((entry) => entry.declaresHeaders),
    hasTasks: tools.some((entry) => entry.task !== undefined),
    scopes: unionOfScopes(
      ...[...tools, ...prompts, ...resources, ...templates, ...events].map((entry) => entry.scopes),
    ),
  }
}

function byName<Entry extends { readonly definition: { readonly name: string } }>(
  entries: readonly Entry[],
): ReadonlyMap<string, Entry> {
  return new Map(entries.map((entry) => [entry.definition.name, entry]))
}

/** Returns a table with other tools. */
export function withTools(table: RouterTable, change: (tool: ToolEntry) => ToolEntry): RouterTable {
  return { ...table, tools: new Map([...table.tools].map(([name, tool]) => [name, change(tool)])) }
}

/**
 * Returns a table whose tools are listed with `_meta.securitySchemes`. A tool that names its own schemes keeps them.
 * @param endpointScopes the scopes that every request with a token needs
 * @param isAnonymousAllowed `true` if public tools need no token
 */
export function tableWithSecuritySchemes(
  table: RouterTable,
  endpointScopes: readonly string[],
  isAnonymousAllowed: boolean,
): RouterTable {
  return withTools(table, (tool) => {
    const scopes = unionOfScopes(endpointScopes, tool.scopes)
    const scheme = isAnonymousAllowed && tool.isPublic ? { type: 'noauth' } : { type: 'oauth2', scopes }
    const _meta = { securitySchemes: [scheme], ...tool.definition._meta }
    return { ...tool, definition: Object.freeze({ ...tool.definition, _meta }) }
  })
}

/**
 * Finds the resource of a URI, or the first template that matches it.
 * @param canonical the canonical form of the URI.
 */
export function findResource(
  { resources, templates }: Pick<RouterTable, 'resources' | 'templates'>,
  canonical: string,
):
  | {
      readonly entry: ResourceEntry | ResourceTemplateEntry
      readonly variables?: Readonly<Record<string, string | string[]>>
    }
  | undefined {
  const entry = resources.get(canonical)
  if (entry !== undefined) return { entry }
  for (const template of templates) {
    const variables = template.matcher.match(canonical)
    if (variables !== undefined) return { entry: template, variables }
  }
  return undefined
}

/** Returns the resources by canonical URI. Each has the scopes of the templates that match it, too. */
function resourcesByUri(
  resources: readonly ResourceEntry[],
  templates: readonly ResourceTemplateEntry[],
): ReadonlyMap<string, ResourceEntry> {
  const byUri = new Map(resources.map((entry) => [entry.canonical, entry]))
  for (const [canonical, entry] of byUri) {
    const scopes = scopesOfUri({ resources: byUri, templates }, canonical)
    if (scopes.some((scope) => !entry.scopes.includes(scope))) byUri.set(canonical, { ...entry, scopes })
  }
  return byUri
}
