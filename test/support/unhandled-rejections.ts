// Mocha loads this module before the tests. It makes the process fail if a promise was rejected and it is not handled by
// the end: Mocha itself ignores that. A promise may be handled late, such as after another `await` of its test.

const unhandled = new Map<Promise<unknown>, unknown>()

process.on('unhandledRejection', (reason, promise) => void unhandled.set(promise, reason))
process.on('rejectionHandled', (promise) => void unhandled.delete(promise))
process.once('exit', () => {
  if (unhandled.size === 0) return
  process.exitCode = 1
  for (const reason of unhandled.values()) console.error('Unhandled rejection:', reason)
})

/** Waits after the last test, so that what it left behind is reported before the process exits. */
export async function mochaGlobalTeardown(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
