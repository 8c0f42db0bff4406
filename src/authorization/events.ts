import { cutText } from '../base/cut-text.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'

/** The events of an authorization server, without the prefix `kit.authorization.`. */
export type AuthorizationEvent =
  | 'client.registered'
  | 'client.refused'
  | 'code.reused'
  | 'limit.reached'
  | 'consent.given'
  | 'consent.denied'
  | 'signin.refused'
  | 'token.issued'
  | 'token.refused'
  | 'refresh.reused'
  | 'revoked'

/** Attributes of an event. They never contain tokens, codes, or claims other than the subject. */
export interface AuthorizationEventAttributes {
  readonly client?: string | undefined
  readonly client_kind?: string | undefined
  readonly redirect_host?: string | undefined
  readonly provider?: string | undefined
  readonly subject?: string | undefined
  readonly scopes?: string | undefined
  readonly grant_type?: string | undefined
  readonly reason?: string | undefined
  /** The cause of the end of a grant. */
  readonly by?: string | undefined
  /** The failed check of an identity assertion. */
  readonly cause?: string | undefined
}

export type Emit = (event: AuthorizationEvent, attributes: AuthorizationEventAttributes) => void

const WARNINGS: ReadonlySet<AuthorizationEvent> = new Set([
  'client.refused',
  'code.reused',
  'limit.reached',
  'refresh.reused',
  'signin.refused',
  'token.refused',
])

/** The longest value of an attribute. Strangers choose some of them. */
const MAX_LENGTH = 300

/** Returns a function that emits events. Without a manager it does nothing. */
export function emitterOf(manager: KitTelemetryManager<any, any, any> | undefined): Emit {
  if (manager === undefined) return () => undefined
  return (event, attributes) => {
    const known = Object.entries(attributes).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, cutText(value, MAX_LENGTH)] as const] : [],
    )
    tryOrUndefined(() =>
      manager.emit(`kit.authorization.${event}`, {
        level: WARNINGS.has(event) ? 'warn' : 'info',
        attributes: Object.fromEntries(known),
      }),
    )
  }
}
