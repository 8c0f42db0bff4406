import { unionOfScopes } from '../../oauth/scope.ts'
import { type RouterTable, withTools } from './router-table.ts'

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
