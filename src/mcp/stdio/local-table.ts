import type { RouterTable } from '../router/router-table.ts'

/** The maximum number of operations that an error names. */
const MAX_NAMED = 5

/** Returns the operations with scopes, or with their own policy, such as `tool 'wipe'`, shortened to the first ones. Returns '' if there are none. */
export function scopedOperations({
  tools,
  prompts,
  listedResources,
  templates,
  events,
}: RouterTable): string {
  const kinds = {
    tool: tools,
    prompt: prompts,
    resource: listedResources,
    resourceTemplate: templates,
    event: events,
  }
  const named = Object.entries(kinds).flatMap(([kind, entries]) =>
    [...entries.values()]
      .filter((entry) => entry.scopes.length > 0 || 'authorize' in entry)
      .map(({ definition }) => `${kind} '${definition.name}'`),
  )
  const more = named.length - MAX_NAMED
  return [...named.slice(0, MAX_NAMED), ...(more > 0 ? [`${more} more`] : [])].join(', ')
}

/** Returns a table whose operations do not need scopes. */
export function withoutScopes(table: RouterTable): RouterTable {
  return {
    ...table,
    tools: withoutScopesByKey(table.tools),
    prompts: withoutScopesByKey(table.prompts),
    events: withoutScopesByKey(table.events),
    resources: withoutScopesByKey(table.resources),
    listedResources: withoutScopesByKey(table.listedResources),
    skills: withoutScopesByKey(table.skills),
    directories: withoutScopesByKey(table.directories),
    templates: table.templates.map((entry) => ({ ...entry, scopes: [] })),
    scopes: [],
  }
}

function withoutScopesByKey<Key, Entry extends { readonly scopes: readonly string[] }>(
  entries: ReadonlyMap<Key, Entry>,
): ReadonlyMap<Key, Entry> {
  return new Map([...entries].map(([key, entry]) => [key, { ...entry, scopes: [] }]))
}
