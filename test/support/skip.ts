/**
 * Skips the current test, or all tests of the suite in `before`, if there is a reason, and prints the reason. It is the only way to
 * skip a test, so that no test is skipped in silence.
 *
 * @example before(function () { skipIf(this, redisMissing()) })
 */
export function skipIf(context: Mocha.Context, reason: string | undefined): void {
  if (reason === undefined) return
  console.log(`skipped: ${reason}`.replaceAll(/^/gm, '    '))
  context.skip()
}
