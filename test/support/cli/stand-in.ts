/** An OpenID provider that `provider.program.ts` replaces, with its real addresses. */
export interface StandIn {
  readonly issuer: string
  readonly authorize: string
  readonly token: string
  readonly jwks: string
  readonly userInfo?: string
  readonly client: { readonly id: string; readonly secret: string }
  /** The claims of ID tokens, without those of every token. */
  readonly claims: Readonly<Record<string, unknown>>
  readonly redirectUri: string
}
