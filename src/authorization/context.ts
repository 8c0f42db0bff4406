import type { Provider } from 'oidc-provider'

/** A request to the authorization server, and its response. */
export type Context = Parameters<Parameters<Provider['use']>[0]>[0]
