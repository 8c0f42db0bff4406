/** A test that has its own servers and clients, so that it can run beside others. */
export type IndependentTest = readonly [title: string, run: () => Promise<void>]

/**
 * Declares tests that mostly wait. They run at most `count` at a time, and all of them before the first one is reported, because
 * hooks after a test close the servers of all tests.
 */
export function itAtOnce(count: number, tests: readonly IndependentTest[]): void {
  const results = new Map<IndependentTest, Promise<void>>()

  before(async function () {
    this.timeout(this.timeout() * Math.ceil(tests.length / count))
    const lanes: Promise<void>[] = Array.from({ length: count }, () => Promise.resolve())
    for (const [index, test] of tests.entries()) {
      const result = (lanes[index % count] as Promise<void>).then(test[1])
      results.set(test, result)
      lanes[index % count] = result.catch(() => undefined)
    }
    await Promise.all(lanes)
  })

  for (const test of tests) it(test[0], () => results.get(test))
}
