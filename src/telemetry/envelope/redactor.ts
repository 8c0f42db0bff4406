import { cutText } from '../../base/cut-text.ts'
import { type ErrorLink, keepLinks, linksOf } from '../../base/describe-error.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryActor, TelemetryEnvelope, TelemetryErrorInfo, TelemetryScope } from './envelope.ts'
import { latestCopyBytes, toRedactedJson } from './redacted-json.ts'
import type { KeyRules } from './redaction.ts'
import { textBytes } from './weight.ts'

/** The values that events inherit from their session. */
type Inherited = {
  readonly [Member in 'actor' | 'scope' | 'attributes']: TelemetryEnvelope[Member] | undefined
}

/** The redacted values that events inherit from their session, and their bytes in memory. */
export interface RedactedValues extends Inherited {
  readonly bytes: number
}

/** Applies one set of rules to the parts of an envelope. The results are frozen copies. */
export class Redactor {
  readonly #rules: KeyRules
  /** The bytes of the latest result in memory. */
  bytes = 0

  constructor(rules: KeyRules) {
    this.#rules = rules
  }

  /**
   * Redacts an object.
   * @param base an earlier result of this method. The values are merged over it. Its bytes are not counted.
   * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if `value` is not an object of values by key, such as a `Date`. Errors
   * while its keys are read are thrown as they are.
   */
  map(
    member: string,
    value: object,
    base?: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const copy = toRedactedJson(value, this.#rules, base)
    this.bytes = latestCopyBytes()
    if (copy !== undefined) return copy
    throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', `${member} must be an object`)
  }

  actor(actor: TelemetryActor): TelemetryActor {
    const { type, id, tags } = actor
    const redacted: { type: string; id?: string; tags?: TelemetryActor['tags'] } = { type }
    if (id !== undefined) redacted.id = id
    this.bytes = 0
    if (tags !== undefined) redacted.tags = this.map('actor.tags', tags)
    this.bytes += textBytes(type) + textBytes(id ?? '')
    return Object.freeze(redacted as TelemetryActor)
  }

  scope(scope: TelemetryScope): TelemetryScope {
    const { type, id, tags } = scope
    this.bytes = 0
    const redacted = tags === undefined ? { type, id } : { type, id, tags: this.map('scope.tags', tags) }
    this.bytes += textBytes(type) + textBytes(id)
    return Object.freeze(redacted)
  }

  /** Redacts the values of a session. */
  inherited({ actor, scope, attributes }: Inherited): RedactedValues {
    let bytes = 0
    const counted = <Value>(redacted: Value): Value => {
      bytes += this.bytes
      return redacted
    }
    return {
      actor: actor && counted(this.actor(actor)),
      scope: scope && counted(this.scope(scope)),
      attributes: attributes && counted(this.map('attributes', attributes)),
      bytes,
    }
  }

  /** Redacts an error, and limits the length of its message and its stack. */
  error(texts: TelemetryErrorInfo): TelemetryErrorInfo {
    const rules = this.#rules
    const { name, message, code, stack } = texts
    this.bytes = 0
    const attributes = texts.attributes && this.map('error.attributes', texts.attributes)
    const links = fittedLinks(linksOf(texts) ?? [], rules)
    const redacted = {
      name: rules.name(name),
      message: rules.string(message),
      ...(code !== undefined && { code: rules.name(code) }),
      ...(stack !== undefined && {
        stack:
          links.length === 0 ? rules.string(stack) : links.map(({ head, frames }) => head + frames).join(''),
      }),
    }
    for (const text of Object.values(redacted)) this.bytes += textBytes(text)
    for (const link of links) this.bytes += textBytes(link.message) + textBytes(link.frames)
    const hasAttributes = attributes !== undefined && Object.keys(attributes).length > 0
    const info = Object.freeze(hasAttributes ? { ...redacted, attributes } : redacted)
    return links.length === 0 ? info : keepLinks(info, links)
  }
}

/** The length of a name with its message that always stays in a stack, if the stack may be long enough. */
const MIN_HEAD = 60

/**
 * Redacts the errors of a stack, and cuts them so that the stack fits. A message takes no more than a quarter of the share of
 * its error. Each error keeps its first frame, and what is left goes to the first errors.
 */
function fittedLinks(links: readonly ErrorLink[], rules: KeyRules): readonly ErrorLink[] {
  const redacted = links.map((link) => ({
    ...link,
    name: rules.name(link.name),
    message: rules.string(link.message),
    head: rules.string(link.head),
    frames: rules.string(link.frames),
  }))
  const { maxLength } = rules
  if (redacted.reduce((sum, { head, frames }) => sum + head.length + frames.length, 0) <= maxLength)
    return redacted
  const share = Math.floor(maxLength / links.length)
  const maxHead = Math.max(Math.min(MIN_HEAD, share), share >> 2)
  let spare = maxLength
  const sized = redacted.map((link) => {
    const head = cutText(link.head, maxHead, '…')
    const next = link.frames.indexOf('\n', 1)
    const size = Math.min(next === -1 ? link.frames.length : next, share - head.length)
    spare -= head.length + size
    return { ...link, head, size }
  })
  return sized.map(({ size, ...link }) => {
    const frames = cutFrames(link.frames, size + spare)
    spare -= Math.max(0, frames.length - size)
    return { ...link, frames }
  })
}

/** Returns the whole frames of the first characters, or the beginning of the first frame. */
function cutFrames(frames: string, max: number): string {
  if (frames.length <= max) return frames
  const end = frames.lastIndexOf('\n', max)
  return cutText(frames, end > 0 ? end : max)
}

/**
 * Returns a function that redacts the ids of an envelope by the keys under which transports write them: `user.id` or
 * `kit.actor.id` for the actor, and `session.id`. Returns `undefined` if the rules keep these keys.
 */
export function idRedaction(
  rules: KeyRules,
): ((envelope: TelemetryEnvelope) => TelemetryEnvelope) | undefined {
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
