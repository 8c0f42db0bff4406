import { cutText } from '../base/cut-text.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'

/** The events of the facade, whose names begin with `kit.authorization.`, with their levels. */
const LEVELS = {
  'client.registered': 'info',
  'client.refused': 'warn',
  'code.reused': 'warn',
  'limit.reached': 'warn',
  'consent.given': 'info',
  'consent.denied': 'info',
  'signin.refused': 'warn',
  'token.issued': 'info',
  'token.refused': 'warn',
  'refresh.reused': 'warn',
  revoked: 'info',
} as const

export type AuthorizationEvent = keyof typeof LEVELS

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
        level: LEVELS[event],
        attributes: Object.fromEntries(known),
      }),
    )
  }
}
