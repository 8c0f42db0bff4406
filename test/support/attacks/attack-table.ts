/** One attack and its expected outcome. */
export interface Attack {
  /** The action of the attacker, such as `1 MiB in chunks of 1 byte`. Unique within its area. */
  readonly attack: string
  /** The allowed outcome, such as `413` or `the scope is required`. */
  readonly outcome: string
  /** Carries out the attack and asserts the outcome. */
  readonly run: (this: Mocha.Context) => void | Promise<void>
}

/**
 * Declares one test for each attack, and prints the area's table when they have run.
 * Call it inside a `describe` that sets up the servers under attack.
 */
export function attackTable(area: string, attacks: readonly Attack[]): void {
  describe(`attack table: ${area}`, () => {
    const failed = new Set<string>()
    for (const { attack, outcome, run } of attacks) {
      it(`${area}: ${attack}: ${outcome}`, async function () {
        failed.add(attack)
        await run.call(this)
        failed.delete(attack)
      })
    }

    after(function () {
      const ran = new Set(
        this.test?.parent?.tests
          .filter(({ state }) => state === 'passed' || state === 'failed')
          .map(({ title }) => title),
      )
      const lines = attacks
        .filter(({ attack, outcome }) => ran.has(`${area}: ${attack}: ${outcome}`))
        .map(
          ({ attack, outcome }) => `    ${failed.has(attack) ? 'FAILED' : 'held  '} | ${attack} | ${outcome}`,
        )
      console.log([`\n    ${area}: ${lines.length} attacks`, ...lines, ''].join('\n'))
    })
  })
}
