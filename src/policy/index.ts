export { authzen } from './authzen.ts'
export type { AuthZenAction, AuthZenEntity, AuthZenEvaluation, AuthZenMapping } from './evaluation.ts'
export type { AuthZenHeaders, AuthZenOptions } from './options.ts'
