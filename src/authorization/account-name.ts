import type { SignInClaims } from './options.ts'

/** Returns the names of an account: the one by which its owner knows it, and the address or the full name. */
export function accountName({ login, preferred_username, email, name, sub }: SignInClaims): string {
  const names = [login, preferred_username, email, name, sub].filter(
    (value): value is string => typeof value === 'string' && value !== '',
  )
  const [first = ''] = names
  const second = [email, name].find((value) => names.includes(String(value)) && value !== first)
  return second === undefined ? first : `${first} (${second})`
}
