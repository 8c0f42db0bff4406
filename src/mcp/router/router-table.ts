import type { ServerCapabilities, Tool } from '@modelcontextprotocol/server'
import { unionOfScopes } from '../../oauth/scope.ts'
import { APPS_EXTENSION } from './app.ts'
import { linkedApps } from './app-links.ts'
import type { EventEntry } from './event.ts'
import { composedMiddleware, type Middleware, type Wrapped } from './middleware.ts'
import type { PromptEntry } from './prompt.ts'
import type { ResourceEntry, ResourceTemplateEntry } from './resource.ts'
import {
  SKILLS_CAPABILITY,
  type SkillEntry,
  type SkillTables,
  skillResources,
  skillTables,
} from './skills.ts'
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
  readonly definitions: readonly Tool[]
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

export interface RouterEntries {
  readonly tools: readonly ToolEntry[]
  readonly prompts: readonly PromptEntry[]
  readonly resources: readonly ResourceEntry[]
  readonly templates: readonly ResourceTemplateEntry[]
  readonly skills: readonly SkillEntry[]
  readonly events: readonly EventEntry[]
}

export function routerTable(
  makeContext: AppContextFactory<unknown> | undefined,
  entries: RouterEntries,
  middleware: readonly Middleware<any>[],
): RouterTable {
  const { prompts, templates, skills, events, ...unlinked } = wrappedEntries(entries, middleware)
  const { tools, resources: own } = linkedApps(unlinked)
  const files = skills.map(skillResources)
  const resources = [...own, ...files.flat()]
  const hasApps = own.some(({ app }) => app !== undefined)
  const hasResources = resources.length > 0 || templates.length > 0
  const completes = [...prompts, ...templates].some(({ completers }) => completers !== undefined)
  const byUri = resourcesByUri(resources, templates)
  return {
    makeContext,
    tools: new Map(tools.map((entry) => [entry.definition.name, entry])),
    definitions: tools.map((entry) => entry.definition),
    prompts: new Map(prompts.map((entry) => [entry.definition.name, entry])),
    resources: byUri,
    listedResources:
      files.length === 0
        ? byUri
        : withoutResources(
            byUri,
            files.flatMap(([, ...others]) => others),
          ),
    templates,
    events: new Map(events.map((entry) => [entry.definition.name, entry])),
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

/** Returns the entries with the middleware of the router around that of merged routers. */
function wrappedEntries(
  { tools, prompts, resources, templates, skills, events }: RouterEntries,
  middleware: readonly Middleware<any>[],
): RouterEntries {
  const wrapped = <Entry extends Wrapped>(entry: Entry): Entry => {
    const around = composedMiddleware([...middleware, ...(entry.merged ?? [])])
    return around === undefined ? entry : { ...entry, around }
  }
  return {
    tools: tools.map(wrapped),
    prompts: prompts.map(wrapped),
    resources: resources.map(wrapped),
    templates: templates.map(wrapped),
    skills: skills.map(wrapped),
    events,
  }
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

/** Returns the resources without `omitted`. */
function withoutResources(
  resources: ReadonlyMap<string, ResourceEntry>,
  omitted: readonly ResourceEntry[],
): ReadonlyMap<string, ResourceEntry> {
  const uris = new Set(omitted.map(({ canonical }) => canonical))
  return new Map([...resources].filter(([uri]) => !uris.has(uri)))
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
