/** One attack and its expected outcome. */
export interface Attack {
  /** The action of the attacker, such as `1 MiB in chunks of 1 byte`. Unique within its area. */
  readonly attack: string
  /** The allowed outcome, such as `413` or `the scope is required`. */
  readonly outcome: string
  /** Carries out the attack and asserts the outcome. */
  readonly run: (this: Mocha.Context) => void | Promise<void>
}

/** Declares one test for each attack. */
export function attackTable(area: string, attacks: readonly Attack[]): void {
  for (const { attack, outcome, run } of attacks) it(`${area}: ${attack}: ${outcome}`, run)
}
