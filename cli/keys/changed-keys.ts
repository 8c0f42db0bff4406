import { type AuthorizationKeys, createKeys } from '../../src/authorization/keys.ts'
import type { KeptKeys } from './arguments.ts'

/** Keys after a change, with the number of old ones that were removed. */
export interface RotatedKeys {
  readonly keys: AuthorizationKeys
  readonly removed: KeptKeys
}

/** Puts new keys in front, and removes the oldest ones beyond the number that remains. */
export function rotateKeys(keys: AuthorizationKeys, kept: KeptKeys): RotatedKeys {
  const added = createKeys()
  const signing = [...added.signing, ...keys.signing]
  const encryption = [...added.encryption, ...keys.encryption]
  return {
    keys: { signing: signing.slice(0, kept.signing), encryption: encryption.slice(0, kept.encryption) },
    removed: {
      signing: Math.max(0, signing.length - kept.signing),
      encryption: Math.max(0, encryption.length - kept.encryption),
    },
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
