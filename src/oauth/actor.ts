import { isRecord } from '../options/value-kinds.ts'

/**
 * The party that acts for the user of a token (the claim `act`), such as a service or an AI agent. At least one of `subject` and
 * `clientId` is present.
 * @see https://www.rfc-editor.org/rfc/rfc8693#section-4.1
 */
export interface Actor {
  /** The member `sub` of the claim, of at most 1,024 characters. It is unique only together with the issuer. */
  readonly subject?: string
  /** The member `iss` of the claim, of at most 1,024 characters. Absent if the issuer of the token names the actor. */
  readonly issuer?: string
  /** The member `client_id` of the claim, of at most 1,024 characters. */
  readonly clientId?: string
  /**
   * The party that acted before this one. Do not use it to decide about access (RFC 8693 §4.1). A chain has at most 4 actors;
   * it ends earlier at an actor that cannot be read.
   */
  readonly actor?: Actor
}

const MAX_ACTORS = 4
const MAX_LENGTH = 1_024

/**
 * Reads a claim `act`. Returns `undefined` if there is none, and `null` if the current actor cannot be read.
 * @param act the value of the claim; `null` counts as absent
 * @param actors the maximum number of actors
 */
export function actorOf(act: unknown, actors = MAX_ACTORS): Actor | undefined | null {
  if (act === undefined || act === null) return undefined
  if (!isRecord(act)) return null
  const [subject, issuer, clientId] = [act.sub, act.iss, act.client_id].map((value) => value ?? undefined)
  if (!isName(subject) || !isName(issuer) || !isName(clientId) || (subject ?? clientId) === undefined)
    return null
  const actor = actors === 1 ? undefined : actorOf(act.act, actors - 1)
  return {
    ...(subject !== undefined && { subject }),
    ...(issuer !== undefined && { issuer }),
    ...(clientId !== undefined && { clientId }),
    ...(actor && { actor }),
  }
}

/** Returns `act` as a part of a verifier's result. The gate checks it. */
export function actOf({ act }: Readonly<Record<string, unknown>>): { act?: Record<string, unknown> } {
  return act === undefined ? {} : { act: act as Record<string, unknown> }
}

function isName(value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && value.length > 0 && value.length <= MAX_LENGTH)
}
