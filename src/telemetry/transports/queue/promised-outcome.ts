import type { EventOutcome } from '../../delivery/transport.ts'

/** An outcome that is a promise. */
export class PromisedOutcome implements EventOutcome {
  readonly promise: Promise<void>
  #resolve: () => void = () => {}
  #reject: (cause: unknown) => void = () => {}

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  delivered(): void {
    this.#resolve()
  }

  failed(cause: unknown): void {
    // A caller may ignore the outcome. An ignored rejection must not be an error of the process.
    this.promise.catch(() => {})
    this.#reject(cause)
  }
}
