import type { TelemetryEnvelope } from './envelope.ts'
import { KeyRules, type ResolvedRedactionPolicy } from './redaction.ts'

/**
 * Returns a function that redacts the ids of an envelope by the keys under which transports write them: `user.id` or
 * `kit.actor.id` for the actor, and `session.id`. Returns `undefined` if the policy keeps these keys.
 */
export function idRedaction(
  policy: ResolvedRedactionPolicy,
): ((envelope: TelemetryEnvelope) => TelemetryEnvelope) | undefined {
  const rules = new KeyRules(policy)
  const actionFor = (...keys: string[]): 'deny' | 'hash' | 'keep' => {
    const actions = keys.map((key) => rules.resolve(rules.root, key).action)
    return (['deny', 'hash'] as const).find((action) => actions.includes(action)) ?? 'keep'
  }
  const actorAction = actionFor('user.id', 'kit.actor.id')
  const sessionAction = actionFor('session.id')
  if (actorAction === 'keep' && sessionAction === 'keep') return undefined
  const redacted = (action: string, id: string): string | undefined =>
    action === 'keep' ? id : action === 'hash' ? rules.hash(id) : undefined
  return ({ sessionId, actor, ...others }) => {
    const shownSession = redacted(sessionAction, sessionId)
    const { id, ...shownActor } = actor ?? {}
    const shownId = id === undefined ? undefined : redacted(actorAction, id)
    return Object.freeze({
      ...others,
      ...(shownSession !== undefined && { sessionId: shownSession }),
      ...(actor && {
        actor: Object.freeze({ ...shownActor, ...(shownId !== undefined && { id: shownId }) }),
      }),
    }) as TelemetryEnvelope
  }
}
