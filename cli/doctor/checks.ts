import { AUTHORIZATION_SERVERS } from './authorization-servers.ts'
import { CALLS } from './calls.ts'
import type { Check } from './check.ts'
import { CLIENT } from './client-discovery.ts'
import { CLIENT_REGISTRATION } from './client-registration.ts'
import { CORS } from './cors.ts'
import { EDGE } from './edge.ts'
import { ISSUER_CORS } from './issuer-cors.ts'
import { ISSUER_SUPPORT } from './issuer-support.ts'
import { LIMITS } from './limits.ts'
import { ORIGINS } from './origins.ts'
import { PROTECTION } from './protection.ts'
import { PROTOCOL } from './protocol.ts'
import { PUBLIC_OPERATIONS } from './public-operations.ts'
import { REACHABILITY } from './reachability.ts'
import { RESOURCE_METADATA } from './resource-metadata.ts'
import { TOKENS } from './tokens.ts'
import { TOOLS } from './tools.ts'
import { WELL_KNOWN } from './well-known.ts'

export interface CheckGroup {
  readonly title: string
  readonly checks: readonly Check[]
}

/** All checks in order. The checks that a check needs come before it. */
export const CHECK_GROUPS: readonly CheckGroup[] = [
  { title: 'Server', checks: REACHABILITY },
  { title: 'Server', checks: EDGE },
  { title: 'Protection', checks: PROTECTION },
  { title: 'Protection', checks: PUBLIC_OPERATIONS },
  { title: 'Resource metadata', checks: RESOURCE_METADATA },
  { title: 'Resource metadata', checks: WELL_KNOWN },
  { title: 'Authorization servers', checks: AUTHORIZATION_SERVERS },
  { title: 'Authorization servers', checks: ISSUER_SUPPORT },
  { title: 'Authorization servers', checks: CLIENT_REGISTRATION },
  { title: 'Tokens', checks: TOKENS },
  { title: 'Protocol', checks: PROTOCOL },
  { title: 'Calls', checks: CALLS },
  { title: 'Calls', checks: TOOLS },
  { title: 'CORS', checks: CORS },
  { title: 'CORS', checks: ISSUER_CORS },
  { title: 'Origin and Host', checks: ORIGINS },
  { title: 'Client', checks: CLIENT },
  { title: 'Limits', checks: LIMITS },
]
