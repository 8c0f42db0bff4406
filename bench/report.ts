export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

/**
 * Prints a Markdown table: the median of each contestant, and the median of its ratio to the baseline,
 * taken round by round.
 */
export function printRatios(
  title: string,
  figures: Record<string, readonly number[]>,
  baseline: string,
  unit: string,
): void {
  console.log(`\n### ${title}\n`)
  console.log(`| contestant | ${unit} | ratio to ${baseline} | min to max |\n|---|---|---|---|`)
  for (const [name, values] of Object.entries(figures)) {
    const ratios = values.map((value, round) => value / (figures[baseline]?.[round] as number))
    const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`
    console.log(
      `| ${name} | ${Math.round(median(values)).toLocaleString('en')} | ${median(ratios).toFixed(2)} | ${range} |`,
    )
  }
}
