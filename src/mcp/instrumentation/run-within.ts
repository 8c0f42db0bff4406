import { tryOrUndefined } from '../../try-or-undefined.ts'

/**
 * Runs `fn` once, inside `around` if that calls its argument, and otherwise after it.
 * @returns the result of `fn`
 * @throws what `fn` throws. An error of `around` is ignored.
 */
export function runWithin<T>(around: (once: () => T | undefined) => unknown, fn: () => T): T {
  let outcome: { readonly value: T } | { readonly thrown: unknown } | undefined
  const once = (): T | undefined => {
    if (outcome === undefined) {
      try {
        outcome = { value: fn() }
      } catch (thrown) {
        outcome = { thrown }
      }
    }
    return 'value' in outcome ? outcome.value : undefined
  }
  tryOrUndefined(() => around(once))
  once()
  const settled = outcome as unknown as { readonly value: T } | { readonly thrown: unknown }
  if ('thrown' in settled) throw settled.thrown
  return settled.value
}
