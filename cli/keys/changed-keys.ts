import { type AuthorizationKeys, createKeys } from '../../src/authorization/keys.ts'
import type { KeptKeys } from './arguments.ts'

/** Puts new keys in front, and removes the oldest ones beyond the number that remains. */
export function rotateKeys(keys: AuthorizationKeys, kept: KeptKeys): AuthorizationKeys {
  const added = createKeys()
  return {
    signing: [...added.signing, ...keys.signing].slice(0, kept.signing),
    encryption: [...added.encryption, ...keys.encryption].slice(0, kept.encryption),
  }
}

/** Puts new keys at the end. A server accepts them there and does not use them. */
export function stageKeys(keys: AuthorizationKeys): AuthorizationKeys {
  const added = createKeys()
  return {
    signing: [...keys.signing, ...added.signing],
    encryption: [...keys.encryption, ...added.encryption],
  }
}

/** Moves the last key of each list to the front. */
export function promoteKeys({ signing, encryption }: AuthorizationKeys): AuthorizationKeys {
  return {
    signing: [...signing.slice(-1), ...signing.slice(0, -1)],
    encryption: [...encryption.slice(-1), ...encryption.slice(0, -1)],
  }
}
