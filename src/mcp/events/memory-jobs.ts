/** A message in memory that waits for its time, and then for its turn. */
export interface Job {
  readonly owner: string
  readonly addedAtMs: number
  attempts: number
  postponed: number
  /** Defined until its time has come. */
  timer?: NodeJS.Timeout | undefined
}

/** The wait after an attempt that rejects. */
const REJECTED_MS = 30_000

/** Jobs in memory. Those that are due come in the order of their time for each owner, and owners take turns. */
export class MemoryJobs<T extends Job> {
  /** By owner. The owner whose turn it is comes first. */
  readonly #due = new Map<string, Set<T>>()
  readonly #running = new Set<Promise<void>>()
  #run: ((job: T) => Promise<number | undefined>) | undefined
  #max = 0

  /** Makes a job due, or due after a time. */
  add(job: T, delayMs = 0): void {
    if (delayMs > 0) {
      job.timer = setTimeout(() => this.add(job), delayMs).unref()
      return
    }
    job.timer = undefined
    this.#due.set(job.owner, (this.#due.get(job.owner) ?? new Set()).add(job))
    this.#begin()
  }

  remove(job: T): void {
    clearTimeout(job.timer)
    const ofOwner = this.#due.get(job.owner)
    ofOwner?.delete(job)
    if (ofOwner?.size === 0) this.#due.delete(job.owner)
  }

  /**
   * Runs what is due, at most `max` jobs at the same time.
   * @param run returns the time after which the job is run again, or undefined if it is done
   * @returns a function that ends it, and waits for the jobs that run
   */
  work(run: (job: T) => Promise<number | undefined>, max: number): () => Promise<void> {
    this.#run = run
    this.#max = max
    this.#begin()
    return async () => {
      this.#run = undefined
      await Promise.all(this.#running)
    }
  }

  #begin(): void {
    while (this.#run !== undefined && this.#running.size < this.#max) {
      const [ofOwner] = this.#due.values()
      const [job] = ofOwner ?? []
      if (ofOwner === undefined || job === undefined) return
      this.remove(job)
      if (this.#due.delete(job.owner)) this.#due.set(job.owner, ofOwner)
      const running = this.#run(job)
        .catch(() => REJECTED_MS)
        .then((delayMs) => {
          this.#running.delete(running)
          if (delayMs !== undefined) this.add(job, delayMs)
          this.#begin()
        })
      this.#running.add(running)
    }
  }
}
