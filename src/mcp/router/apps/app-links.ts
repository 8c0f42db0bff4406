import type { Tool } from '@modelcontextprotocol/server'
import { optionChecksOf } from '../../../base/options/option-checks.ts'
import type { ResourceEntry } from '../resource.ts'
import type { ToolEntry } from '../tool.ts'
import { isOpen } from '../uris/uri-scopes.ts'
import { OLD_URI_META_KEY } from './app.ts'

const { invalidOption, unusableOption } = optionChecksOf('KitMcpRouter')

/** The tools and resources of a router. */
export interface Linkable {
  readonly tools: readonly ToolEntry[]
  readonly resources: readonly ResourceEntry[]
}

/**
 * Returns the tools with the URIs of their apps, and the apps with the scopes of their tools.
 * @throws {KitMcpConfigError} if a tool names an app that does not exist, if no tool names an app, or if the scopes of an app
 * do not follow from its tools.
 */
export function linkedApps({ tools, resources }: Linkable): Linkable {
  const apps = new Map(
    resources.filter(({ app }) => app !== undefined).map((entry) => [entry.definition.name, entry]),
  )
  const toolsOf = new Map<string | undefined, ToolEntry[]>()
  const linked = tools.map((tool) => {
    if (tool.app === undefined) return tool
    const app = apps.get(tool.app)
    if (app === undefined)
      throw invalidOption(
        `app of tool '${tool.definition.name}'`,
        'must be the name of an app of this router',
        tool.app,
        'Add the app to the same router with .app().',
      )
    toolsOf.set(tool.app, [...(toolsOf.get(tool.app) ?? []), tool])
    return { ...tool, definition: withUri(tool.definition, app.definition.uri) }
  })
  return {
    tools: linked,
    resources: resources.map((entry) =>
      entry.app === undefined ? entry : withAccess(entry, toolsOf.get(entry.definition.name) ?? []),
    ),
  }
}

function withUri(definition: Tool, uri: string): Tool {
  const { _meta: given } = definition
  const _meta = Object.freeze({
    ...given,
    ui: Object.freeze({ resourceUri: uri, ...(given?.ui as object | undefined) }),
    [OLD_URI_META_KEY]: uri,
  })
  return Object.freeze({ ...definition, _meta })
}

/** Returns an app that everyone who may call one of its tools can read. */
function withAccess(entry: ResourceEntry, tools: readonly ToolEntry[]): ResourceEntry {
  const { name } = entry.definition
  const [first, ...others] = tools
  if (first === undefined)
    throw unusableOption(
      `app '${name}'`,
      'is not named by any tool',
      `Set app: '${name}' in the options of a tool, or remove the app.`,
    )
  const { inheritsScopes, inheritsPublic } = entry.app ?? {}
  if (inheritsScopes !== true) return entry
  const least = others.reduce((a, b) => (b.scopes.length < a.scopes.length ? b : a), first)
  for (const tool of tools) {
    const scopes = new Set(tool.scopes)
    if (least.scopes.every((scope) => scopes.has(scope))) continue
    throw unusableOption(
      `scopes of app '${name}'`,
      `must be set, because its tools '${least.definition.name}' and '${tool.definition.name}' need different scopes`,
      'Set them to the scopes that reading the document needs.',
    )
  }
  return {
    ...entry,
    scopes: least.scopes,
    ...(inheritsPublic === true && { isPublic: tools.some(isOpen) }),
  }
}
