// Mocha loads this module before the tests. It makes unhandled rejections fail the running test, as uncaught exceptions do:
// Mocha itself ignores them.

process.on('unhandledRejection', (reason) => {
  // Mocha receives it as an uncaught exception. If all tests have ended, the process ends with an error.
  throw reason
})

/** Waits after the last test, so that what it left behind is reported before the process exits. */
export async function mochaGlobalTeardown(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
