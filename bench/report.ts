export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

/**
 * Prints a Markdown table with the median of each contestant, and the median of its ratios to the baseline, round by
 * round.
 */
export function printRatios(
  title: string,
  figures: Record<string, readonly number[]>,
  baseline: string,
  unit: string,
  cpu?: Record<string, readonly number[]>,
): void {
  console.log(`\n### ${title}\n`)
  const cpuHead = cpu === undefined ? '' : ' CPU µs each | × less CPU |'
  const rule = '|---'.repeat(cpu === undefined ? 4 : 6)
  console.log(`| contestant | ${unit} | ratio to ${baseline} | min to max |${cpuHead}\n${rule}|`)
  for (const [name, values] of Object.entries(figures)) {
    const ratios = values.map((value, round) => value / (figures[baseline]?.[round] as number))
    const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`
    const own = cpu?.[name]
    const less = own?.map((value, round) => (cpu?.[baseline]?.[round] as number) / value)
    const cost = own && less ? ` ${Math.round(median(own))} | ${median(less).toFixed(2)} |` : ''
    console.log(
      `| ${name} | ${Math.round(median(values)).toLocaleString('en')} | ${median(ratios).toFixed(2)} | ${range} |${cost}`,
    )
  }
}
