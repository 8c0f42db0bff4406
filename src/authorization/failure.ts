import type * as Oidc from 'oidc-provider'
import type { Context } from './context.ts'
import type { FailureStage } from './interactions.ts'
import { kindOf } from './known-client.ts'
import type { ResolvedFacadeOptions } from './options.ts'

/** An error of an authorization request, as `oidc-provider` shows it. */
export type Failure = Error & Partial<Oidc.errors.OIDCProviderError>

/**
 * Returns `false` if an error would lead a user to an address that a stranger has chosen. A link could send users to any site or
 * program otherwise (RFC 9700 section 4.11.2).
 */
export function mayRedirect(ctx: Context, options: ResolvedFacadeOptions): boolean {
  const location = ctx.response.get('location')
  const { client, entities } = Object((ctx as { oidc?: unknown }).oidc) as Partial<
    Oidc.KoaContextWithOIDC['oidc']
  >
  if (client === undefined || location === '' || kindOf(client, options) === 'static') return true
  const stage = entities?.Interaction?.result?.stage as FailureStage | undefined
  const { protocol } = new URL(location, options.url)
  if (protocol === 'http:' || stage === 'denied') return true
  return protocol !== 'https:' && stage === 'after_sign_in'
}
