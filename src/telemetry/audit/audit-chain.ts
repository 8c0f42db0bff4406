import { cutText } from '../../base/cut-text.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import {
  type AuditKey,
  CanonicalForm,
  CHAIN,
  MAC,
  MAX_CANONICAL,
  messageOf,
  OMITTED,
  PREFIX,
  SEQ,
  withoutLoneSurrogates,
} from './audit-line.ts'

/** The maximum length of the strings of an event whose attributes are left out. */
const MAX_STRING = 1024

type Attributes = NonNullable<TelemetryEnvelope['attributes']>

/** The events of one manager, each with a sequence number and a MAC that includes the MAC of the previous event. */
export class AuditChain {
  readonly #key: AuditKey
  readonly #id: string = crypto.randomUUID()
  #seq = 0
  #mac = ''

  constructor(key: AuditKey) {
    this.#key = key
  }

  /**
   * Adds an event to the chain.
   * @param own attributes of the chain itself.
   * @returns a frozen copy with the attributes of the chain.
   */
  seal(envelope: TelemetryEnvelope, own: Attributes): TelemetryEnvelope {
    const links = { [CHAIN]: this.#id, [SEQ]: this.#seq }
    let event = envelope
    // Only the chain may set attributes with its prefix.
    const ofEvent = Object.entries(envelope.attributes ?? {}).filter(([key]) => !key.startsWith(PREFIX))
    let attributes: Attributes = { ...Object.fromEntries(ofEvent), ...links, ...own }
    let form = new CanonicalForm()
    let canonical = form.of({ ...event, attributes })
    if (canonical.length > MAX_CANONICAL) {
      event = reduced(envelope)
      attributes = { ...links, ...own, [OMITTED]: canonical.length }
      form = new CanonicalForm()
      canonical = form.of({ ...event, attributes })
    }
    if (form.hasLoneSurrogate) {
      event = sound(event) as TelemetryEnvelope
      attributes = sound(attributes) as Attributes
      canonical = new CanonicalForm().of({ ...event, attributes })
    }
    this.#mac = this.#key(messageOf(this.#mac, canonical))
    this.#seq++
    return Object.freeze({ ...event, attributes: Object.freeze({ ...attributes, [MAC]: this.#mac }) })
  }
}

/** Returns the members that say what happened, when, and by whom. */
function reduced(envelope: TelemetryEnvelope): TelemetryEnvelope {
  const { name, time, level, service, environment, version, sessionId, actor, scope } = envelope
  const cut = (text: string): string => cutText(text, MAX_STRING, '…')
  return {
    name,
    time,
    level,
    service: cut(service),
    environment: cut(environment),
    ...(version !== undefined && { version: cut(version) }),
    sessionId: cut(sessionId),
    ...(actor !== undefined && {
      actor: { type: cut(actor.type), ...(actor.id !== undefined && { id: cut(actor.id) }) },
    }),
    ...(scope !== undefined && { scope: { type: cut(scope.type), id: cut(scope.id) } }),
  }
}

/** Copies JSON without lone surrogates, which many programs cannot read. */
function sound(value: unknown): unknown {
  if (typeof value === 'string') return withoutLoneSurrogates(value)
  if (Array.isArray(value)) return Object.freeze(value.map(sound))
  if (!isRecord(value)) return value
  const members = Object.entries(value).map(([key, member]) => [withoutLoneSurrogates(key), sound(member)])
  return Object.freeze(Object.fromEntries(members))
}
