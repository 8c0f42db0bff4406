import { counted } from '../../base/options/counted.ts'
import { TransportChannel } from '../delivery/channel.ts'
import type { AuditChannel } from '../delivery/delivery.ts'
import type { PendingWork } from '../delivery/pending-work.ts'
import { LOSS_REPEAT_MS, type Reporter, transportError } from '../delivery/reporter.ts'
import type { TelemetryTransportMeta, TelemetryTransportStats } from '../delivery/transport.ts'
import type { EnvelopeOrigin } from '../envelope/build-envelope.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { createSessionId } from '../envelope/session-id.ts'
import { isoTime } from '../envelope/time.ts'
import { KitTelemetryError } from '../errors.ts'
import { compileGlob, type GlobMatcher } from '../session/sampling.ts'
import { AuditChain } from './audit-chain.ts'
import { CLOSED, END, FORMAT, LOST, OPENED, VERSION } from './audit-line.ts'
import type { AuditConfig } from './audit-options.ts'
import { InOrderTransport } from './in-order-transport.ts'

/** The bytes of a line of its own, and of the attributes of the chain. */
const LINE_BYTES = 2_048

/** Writes the audited events of a manager to one transport, as a chain with an opening and a closing line. */
export class AuditTrail implements AuditChannel {
  readonly #names: readonly GlobMatcher[]
  readonly #maxPending: number
  readonly #maxPendingBytes: number
  readonly #origin: EnvelopeOrigin
  readonly #reporter: Reporter
  readonly #chain: AuditChain
  readonly #transport: InOrderTransport
  readonly #sessionId = createSessionId()
  readonly #channel: TransportChannel
  #inOrder = (deliver: () => void): void => deliver()
  /** Events that were not written, and those of them that no line mentions yet. */
  #lost = 0
  #unmentioned = 0
  #lastError: KitTelemetryError | undefined
  #isClosed = false

  constructor(
    { transport, names, maxPending, maxPendingBytes, key }: AuditConfig,
    origin: EnvelopeOrigin,
    reporter: Reporter,
  ) {
    this.#names = names.map(compileGlob)
    this.#maxPending = maxPending
    this.#maxPendingBytes = maxPendingBytes
    this.#origin = origin
    this.#reporter = reporter
    this.#chain = new AuditChain(key)
    this.#transport = new InOrderTransport(transport, (cause) => this.#reportFailure(cause))
    const entry = {
      type: transport.type,
      transport: this.#transport,
      // `offer` limits the events. The opening and the closing line are never dropped.
      maxPending: Number.POSITIVE_INFINITY,
      maxPendingBytes: Number.POSITIVE_INFINITY,
    }
    this.#channel = new TransportChannel(entry, reporter, (deliver) => this.#inOrder(deliver))
  }

  /** Returns `true` if events with this name are audited. */
  hasName(name: string): boolean {
    return this.#names.some((matches) => matches(name))
  }

  /** Starts the transport, and writes the opening line. */
  start(meta: TelemetryTransportMeta, inOrder: (deliver: () => void) => void): void {
    this.#inOrder = inOrder
    this.#channel.start(meta)
    this.#write(this.#event(OPENED), LINE_BYTES, { [FORMAT]: VERSION })
  }

  /** Adds an event to the chain, unless too many events or bytes are pending. */
  offer(envelope: TelemetryEnvelope, bytes: number, session: PendingWork | undefined): void {
    const { pending, pendingBytes } = this.#channel
    const isFull = pending >= this.#maxPending || pendingBytes + bytes > this.#maxPendingBytes
    if (this.#isClosed || isFull) this.lose()
    else this.#write(envelope, bytes + LINE_BYTES, {}, session)
  }

  /** Counts an event that cannot be written. The next line mentions it. */
  lose(): void {
    this.#lost++
    this.#unmentioned++
    if (this.#reporter.isDue(this.#transport, LOSS_REPEAT_MS)) this.#warnOfLoss()
  }

  /** `true` while a method of the transport is called that must not wait for itself. */
  get isCallingTransport(): boolean {
    return this.#transport.isFlushing || this.#channel.isCallingTransport
  }

  async flush(deadline: AbortSignal): Promise<void> {
    if (!this.#transport.isFlushing) await this.#channel.flush(deadline)
  }

  /** Writes the closing line, and closes the transport. */
  async close(deadline: AbortSignal): Promise<void> {
    // An event that is being emitted now comes before the closing line.
    await Promise.resolve()
    this.#write(this.#event(CLOSED), LINE_BYTES, { [END]: true })
    this.#isClosed = true
    await this.#channel.close(deadline)
    if (this.#lost > 0) this.#warnOfLoss()
  }

  /** Returns the statistics of the transport, including the opening and the closing line. */
  stats(): TelemetryTransportStats {
    const stats = this.#channel.stats()
    const lastError = stats.lastError ?? this.#lastError
    return {
      ...stats,
      accepted: stats.accepted + this.#lost,
      dropped: this.#lost,
      ...(lastError !== undefined && { lastError }),
    }
  }

  #write(
    envelope: TelemetryEnvelope,
    bytes: number,
    own: Readonly<Record<string, unknown>>,
    session?: PendingWork,
  ): void {
    const lost = this.#unmentioned
    this.#unmentioned = 0
    const sealed = this.#chain.seal(envelope, lost === 0 ? own : { ...own, [LOST]: lost })
    this.#channel.offer(sealed, bytes, session)
  }

  #event(name: string): TelemetryEnvelope {
    const { service, environment, version } = this.#origin
    return {
      name,
      time: isoTime(Date.now()),
      level: 'info',
      service,
      environment,
      ...(version !== undefined && { version }),
      sessionId: this.#sessionId,
    }
  }

  #reportFailure(cause: unknown): void {
    const failure = transportError(
      this.#transport.type,
      'TELEMETRY_TRANSPORT_FAILED',
      'failed to deliver an event',
      cause,
    )
    this.#lastError = new KitTelemetryError(
      failure.code,
      `the audit log has ${counted(this.#channel.pending, 'pending event')}. The first of them will be sent again: ${failure.message}`,
      { cause, ...(failure.details !== undefined && { details: failure.details }) },
    )
    this.#reporter.repeatedError(this, this.#lastError)
  }

  #warnOfLoss(): void {
    this.#reporter.warning(
      `the audit log of transport ${JSON.stringify(this.#transport.type)} has lost ${counted(this.#lost, 'event')} that could not be read, or that came while too many events were pending (maxPending ${this.#maxPending}, maxPendingBytes ${this.#maxPendingBytes}). verifyAudit() reports them`,
      undefined,
      'lost audit events',
    )
  }
}
