import { unionOfScopes } from '../../oauth/scope.ts'
import type { RouterTable } from './router-table.ts'
import type { ToolEntry } from './tool.ts'

/**
 * Returns a table whose tools are listed with `_meta.securitySchemes`. A tool that names its own schemes keeps them.
 * @param endpointScopes the scopes that every request needs
 */
export function tableWithSecuritySchemes(table: RouterTable, endpointScopes: readonly string[]): RouterTable {
  const tools = new Map([...table.tools].map(([name, tool]) => [name, withScheme(tool, endpointScopes)]))
  return { ...table, tools, definitions: [...tools.values()].map(({ definition }) => definition) }
}

function withScheme(tool: ToolEntry, endpointScopes: readonly string[]): ToolEntry {
  const securitySchemes = [{ type: 'oauth2', scopes: unionOfScopes(endpointScopes, tool.scopes) }]
  const { _meta } = tool.definition
  return { ...tool, definition: Object.freeze({ ...tool.definition, _meta: { securitySchemes, ..._meta } }) }
}
