/** The paths of the endpoints below the path of the issuer. */
export const PATHS: Readonly<
  Record<'authorization' | 'jwks' | 'registration' | 'revocation' | 'token', string>
> = {
  authorization: '/authorize',
  jwks: '/jwks',
  registration: '/register',
  revocation: '/revoke',
  token: '/token',
}

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
