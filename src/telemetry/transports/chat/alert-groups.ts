import { AsyncContext } from '../../../runtime.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'

/** An event of a message, or the latest of several events of one group. */
export interface Alert {
  readonly envelope: TelemetryEnvelope
  /** The number of events that it stands for. */
  readonly count: number
  /** The time in which the events occurred, in milliseconds, if a message about their group was sent before. */
  readonly withinMs?: number
}

/** The events of a group that wait for the end of its window. They share one promise. */
interface Held {
  latest: TelemetryEnvelope
  count: number
  readonly promise: Promise<void>
  readonly settle: (sent: Promise<void>) => void
}

interface Group {
  openedAtMs: number
  timer: ReturnType<typeof setTimeout>
  held: Held | undefined
}

/** The maximum number of groups. Events of further groups are sent one by one. */
const MAX_GROUPS = 1_000

/** If so many events of a group wait, their number is sent before the window ends. */
const MAX_HELD = 1_000

/** The timers outlive the requests whose events start them. */
const context = /* @__PURE__ */ new AsyncContext('KitTelemetryAlertGroups')

/**
 * Groups events of the same name, level, and kind of error. The first event of a group is sent at once. The following ones are
 * counted, and their number is sent with the latest of them at the end of each window. A group ends with a window without events.
 */
export class AlertGroups {
  readonly #windowMs: number
  readonly #send: (alert: Alert) => Promise<void>
  readonly #groups = new Map<string, Group>()

  /** @param windowMs 0 for no groups */
  constructor(windowMs: number, send: (alert: Alert) => Promise<void>) {
    this.#windowMs = windowMs
    this.#send = send
  }

  /** Sends or counts an event. @returns a promise that settles with the message that contains the event, or counts it */
  add(envelope: TelemetryEnvelope): Promise<void> {
    if (this.#windowMs === 0) return this.#send({ envelope, count: 1 })
    const key = JSON.stringify([envelope.level, envelope.name, envelope.error?.name])
    const group = this.#groups.get(key)
    if (group === undefined) {
      if (this.#groups.size < MAX_GROUPS) this.#open(key)
      return this.#send({ envelope, count: 1 })
    }
    group.held ??= heldBy(envelope)
    const { held } = group
    held.latest = envelope
    held.count++
    if (held.count === MAX_HELD) this.#release(group)
    return held.promise
  }

  /** Sends the numbers of all groups now. */
  release(): void {
    for (const group of this.#groups.values()) this.#release(group)
  }

  /** Sends the numbers of all groups, and ends the groups. */
  close(): void {
    this.release()
    for (const { timer } of this.#groups.values()) clearTimeout(timer)
    this.#groups.clear()
  }

  #open(key: string): void {
    this.#groups.set(key, { openedAtMs: Date.now(), timer: this.#timer(key), held: undefined })
  }

  #timer(key: string): ReturnType<typeof setTimeout> {
    const timer = context.runInAsyncScope(() => setTimeout(() => this.#end(key), this.#windowMs))
    timer.unref?.()
    return timer
  }

  #end(key: string): void {
    const group = this.#groups.get(key)
    if (group?.held === undefined) {
      this.#groups.delete(key)
      return
    }
    this.#release(group)
    group.timer = this.#timer(key)
  }

  #release(group: Group): void {
    const { held, openedAtMs } = group
    if (held === undefined) return
    const now = Date.now()
    group.held = undefined
    group.openedAtMs = now
    held.settle(
      this.#send({ envelope: held.latest, count: held.count, withinMs: Math.max(0, now - openedAtMs) }),
    )
  }
}

function heldBy(latest: TelemetryEnvelope): Held {
  let settle: Held['settle'] = () => undefined
  const promise = new Promise<void>((resolve) => {
    settle = resolve
  })
  // The callers of `add` see the rejection.
  promise.catch(() => undefined)
  return { latest, count: 0, promise, settle }
}
