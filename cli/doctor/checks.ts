import { AUTHORIZATION_SERVERS } from './authorization-servers.ts'
import { CALLS } from './calls.ts'
import type { Check } from './check.ts'
import { CORS } from './cors.ts'
import { ISSUER_CORS } from './issuer-cors.ts'
import { LIMITS } from './limits.ts'
import { ORIGINS } from './origins.ts'
import { PROTECTION } from './protection.ts'
import { PROTOCOL } from './protocol.ts'
import { PUBLIC_OPERATIONS } from './public-operations.ts'
import { REACHABILITY } from './reachability.ts'
import { RESOURCE_METADATA } from './resource-metadata.ts'
import { TOKENS } from './tokens.ts'

export interface CheckGroup {
  readonly title: string
  readonly checks: readonly Check[]
}

/** All checks in order. The checks that a check needs come before it. */
export const CHECK_GROUPS: readonly CheckGroup[] = [
  { title: 'Server', checks: REACHABILITY },
  { title: 'Protection', checks: PROTECTION },
  { title: 'Protection', checks: PUBLIC_OPERATIONS },
  { title: 'Resource metadata', checks: RESOURCE_METADATA },
  { title: 'Authorization servers', checks: AUTHORIZATION_SERVERS },
  { title: 'Tokens', checks: TOKENS },
  { title: 'Protocol', checks: PROTOCOL },
  { title: 'Calls', checks: CALLS },
  { title: 'CORS', checks: CORS },
  { title: 'CORS', checks: ISSUER_CORS },
  { title: 'Origin and Host', checks: ORIGINS },
  { title: 'Limits', checks: LIMITS },
]
