export type { OpenApiOperation, ScopeMapping } from './operations.ts'
export type { LeftOutOperation, OpenApiToolOptions, OperationFilter } from './options.ts'
export type { RouteApp } from './route-target.ts'
export { toolsFromOpenApi } from './tools-from-open-api.ts'
