import { unionOfScopes } from '../../oauth/scope.ts'
import type { RouterTable } from './router-table.ts'
import type { ToolEntry } from './tool.ts'

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
  const tools = new Map(
    [...table.tools].map(([name, tool]) => {
      const isOpen = isAnonymousAllowed && tool.isPublic
      return [name, withScheme(tool, isOpen ? NO_AUTH : oauth2(unionOfScopes(endpointScopes, tool.scopes)))]
    }),
  )
  return { ...table, tools, definitions: [...tools.values()].map(({ definition }) => definition) }
}

interface SecurityScheme {
  readonly type: 'noauth' | 'oauth2'
  readonly scopes?: readonly string[]
}

const NO_AUTH: SecurityScheme = { type: 'noauth' }

function oauth2(scopes: readonly string[]): SecurityScheme {
  return { type: 'oauth2', scopes }
}

function withScheme(tool: ToolEntry, scheme: SecurityScheme): ToolEntry {
  const securitySchemes = [scheme]
  const { _meta } = tool.definition
  return { ...tool, definition: Object.freeze({ ...tool.definition, _meta: { securitySchemes, ..._meta } }) }
}
