import type { Tables } from './figures.ts'

let recorded: Record<string, Record<string, number>> = {}

/** Keeps a ratio for `--check` and `--save`. A higher ratio is better. Three significant digits are kept. */
export function recordRatio(table: string, contestant: string, ratio: number): void {
  recorded[table] ??= {}
  recorded[table][contestant] = Number(ratio.toPrecision(3))
}

/** Returns the ratios that were recorded since the last call. */
export function takeRatios(): Tables {
  const taken = recorded
  recorded = {}
  return taken
}

/** The contestants of this package. The ratios of others to each other are not recorded. */
const OWN = /mcp-gatekit|toolsFromOpenApi/

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

/**
 * Prints a Markdown table with the median of each contestant, and the median of its ratios to the baseline, round by
 * round. Records the ratios of the CPU time, or those of the figures if there is no CPU time.
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
    if (OWN.test(name) && name !== baseline) {
      const isRate = unit.endsWith('/s')
      recordRatio(
        title,
        name,
        less ? median(less) : median(ratios.map((ratio) => (isRate ? ratio : 1 / ratio))),
      )
    }
    const cost = own && less ? ` ${Math.round(median(own))} | ${median(less).toFixed(2)} |` : ''
    console.log(
      `| ${name} | ${Math.round(median(values)).toLocaleString('en')} | ${median(ratios).toFixed(2)} | ${range} |${cost}`,
    )
  }
}
