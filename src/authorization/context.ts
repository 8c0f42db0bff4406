import type { Provider, ResourceServer } from 'oidc-provider'
import type { Emit } from './events.ts'
import type { Grants } from './grants/grants.ts'
import { signingKeyOf } from './keys.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import type { Records } from './records.ts'
import type { ProviderClient } from './sign-in/provider-client.ts'

/** A request to the authorization server, and its response. */
export type Context = Parameters<Parameters<Provider['use']>[0]>[0]

/** The parts of an authorization server that its modules share. */
export interface ServerParts extends ReturnType<typeof resourceServers> {
  readonly options: ResolvedFacadeOptions
  readonly records: Records
  readonly grants: Grants
  readonly upstream: ProviderClient
  readonly emit: Emit
}

/** Creates the resources that the options name. */
export function resourceServers({ resources, scopes, keys }: ResolvedFacadeOptions) {
  const { alg, kid } = signingKeyOf(keys)
  return {
    /** Returns the resource with an identifier, or `undefined` if the server has none. */
    resourceOf(identifier: unknown): string | undefined {
      if (typeof identifier !== 'string' || !URL.canParse(identifier)) return undefined
      const { href } = new URL(identifier)
      return resources.find((resource) => new URL(resource).href === href)
    },
    /** Returns the settings of the access tokens for a resource. `granted` defaults to all scopes. */
    resourceServerOf: (
      audience: string,
      granted: readonly string[] = Object.keys(scopes),
    ): ResourceServer => ({
      scope: granted.join(' '),
      audience,
      accessTokenFormat: 'jwt',
      jwt: { sign: { alg: alg as 'ES256', ...(kid !== undefined && { kid }) } },
    }),
  }
}

/** Returns the scopes in a parameter. */
export function scopesOf(value: unknown): string[] {
  return typeof value === 'string' ? [...new Set(value.split(' ').filter((scope) => scope !== ''))] : []
}

/** Keeps the characters that an error description may have (RFC 6749 §4.1.2.1). */
export function errorText(description: string): string {
  return description.slice(0, 300).replace(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, ' ')
}

/** The paths of the endpoints below the path of the issuer. */
export const PATHS = {
  authorization: '/authorize',
  jwks: '/jwks',
  registration: '/register',
  revocation: '/revoke',
  token: '/token',
} as const

/** The path of a request to the authorization endpoint that continues after the sign-in, with the id of the sign-in. */
const RESUME = /^\/authorize\/[\w-]{1,64}$/

/** Returns `true` for the path that resumes a sign-in. */
export function isResume(path: string): boolean {
  return RESUME.test(path)
}

/** The path of the sign-in. */
export const SIGN_IN_PATH = '/signin'

/** The path of the page of connected applications. */
export const ACCOUNT_PATH = '/account'

/** The path of the redirect URI at the provider. */
export const CALLBACK_PATH = '/signin/callback'

/** Returns the path of a URL without a slash at the end, to which the paths of pages are appended. */
export function prefixOf(url: string): string {
  const { pathname } = new URL(url)
  return pathname === '/' ? '' : pathname
}
