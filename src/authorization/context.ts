import type { Provider } from 'oidc-provider'
import type { Emit } from './events.ts'
import type { Grants } from './grants.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import type { Records } from './records.ts'
import type { ResourceServers } from './resource-servers.ts'
import type { ProviderClient } from './sign-in.ts'

/** A request to the authorization server, and its response. */
export type Context = Parameters<Parameters<Provider['use']>[0]>[0]

/** The parts of an authorization server that its modules share. */
export interface ServerParts extends ResourceServers {
  readonly options: ResolvedFacadeOptions
  readonly records: Records
  readonly grants: Grants
  readonly upstream: ProviderClient
  readonly emit: Emit
}
