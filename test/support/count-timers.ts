import { createHook } from 'node:async_hooks'

/** The timers that were set since `countTimers()` and are not over, including those that do not keep the process alive. */
export interface TimerCount {
  readonly live: ReadonlySet<number>
  stop(): void
}

export function countTimers(): TimerCount {
  const live = new Set<number>()
  const hook = createHook({
    init: (id, type) => {
      if (type === 'Timeout') live.add(id)
    },
    destroy: (id) => {
      live.delete(id)
    },
  }).enable()
  return { live, stop: () => hook.disable() }
}
