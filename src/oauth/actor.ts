import { definedMembers } from '../base/options/defined-members.ts'
import { isRecord } from '../base/options/value-kinds.ts'

/**
 * The party that acts for the user of a token (the claim `act`), such as a service or an AI agent, with the names of the claim. At least
 * one of `sub` and `client_id` is present.
 * @see https://www.rfc-editor.org/rfc/rfc8693#section-4.1
 */
export interface Actor {
  /** The subject, of at most 1,024 characters. It is unique only together with the issuer. */
  readonly sub?: string
  /** The issuer, of at most 1,024 characters. Absent if the issuer of the token names the actor. */
  readonly iss?: string
  /** The client, of at most 1,024 characters. */
  readonly client_id?: string
  /**
   * The party that acted before this one. Do not use it to decide about access (RFC 8693 §4.1). A chain has at most 4 actors;
   * it ends earlier at an actor that cannot be read.
   */
  readonly act?: Actor
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
  const [sub, iss, client_id] = [act.sub, act.iss, act.client_id].map((value) => value ?? undefined)
  if (!isName(sub) || !isName(iss) || !isName(client_id) || (sub ?? client_id) === undefined) return null
  const earlier = actors === 1 ? undefined : actorOf(act.act, actors - 1)
  return definedMembers({ sub, iss, client_id, act: earlier ?? undefined }) as Actor
}

function isName(value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && value.length > 0 && value.length <= MAX_LENGTH)
}
