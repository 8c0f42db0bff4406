import type { ResourceServer } from 'oidc-provider'
import { signingKeyOf } from './keys.ts'
import type { ResolvedFacadeOptions } from './options.ts'

/** The resources of an authorization server. */
export interface ResourceServers {
  /** Returns the resource with an identifier, or `undefined` if the server has none. */
  resourceOf(identifier: unknown): string | undefined
  /** Returns the settings of the access tokens for a resource. `scopes` defaults to all scopes. */
  resourceServerOf(audience: string, scopes?: readonly string[]): ResourceServer
}

/** Creates the resources that the options name. */
export function resourceServers({ resources, scopes, keys }: ResolvedFacadeOptions): ResourceServers {
  const { alg, kid } = signingKeyOf(keys)
  return {
    resourceOf(identifier) {
      if (typeof identifier !== 'string' || !URL.canParse(identifier)) return undefined
      const { href } = new URL(identifier)
      return resources.find((resource) => new URL(resource).href === href)
    },
    resourceServerOf: (audience, granted = Object.keys(scopes)) => ({
      scope: granted.join(' '),
      audience,
      accessTokenFormat: 'jwt',
      jwt: { sign: { alg: alg as 'ES256', ...(kid !== undefined && { kid }) } },
    }),
  }
}
