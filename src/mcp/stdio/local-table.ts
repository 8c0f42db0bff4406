import type { RouterTable } from '../router/router-table.ts'

/** The maximum number of operations that an error names. */
const MAX_NAMED = 5

/** Returns the operations with scopes, or with their own policy, such as `tool 'wipe'`, shortened to the first ones. Returns '' if there are none. */
export function scopedOperations(table: RouterTable): string {
  const { tools, prompts, listedResources, templates, events } = table
  const named = [tools, prompts, listedResources, templates, events]
    .flatMap((entries) => [...entries.values()])
    .filter((entry) => entry.scopes.length > 0 || 'authorize' in entry)
    .map(({ kind, definition }) => `${kind} '${definition.name}'`)
  const more = named.length - MAX_NAMED
  return [...named.slice(0, MAX_NAMED), ...(more > 0 ? [`${more} more`] : [])].join(', ')
}

/** Returns a table whose operations do not need scopes. */
export function withoutScopes(table: RouterTable): RouterTable {
  const open = (entry: object): object => ({ ...entry, scopes: [] })
  const members = Object.entries(table).map(([member, value]) => [
    member,
    value instanceof Map ? new Map([...value].map(([key, entry]) => [key, open(entry)])) : value,
  ])
  return { ...Object.fromEntries(members), templates: table.templates.map(open), scopes: [] }
}
