/** The ratios of one section, by the title of their table and by contestant. A higher ratio is better. */
export type Tables = Readonly<Record<string, Readonly<Record<string, number>>>>

/** The ratios of several sections, by the name of the section. */
export type Figures = Readonly<Record<string, Tables>>

/** The largest share of a ratio that may be lost without a report. */
export const TOLERANCE = 0.1

/** A ratio that is lower than the committed one by more than the tolerance, or that was not measured. */
export interface Fall {
  readonly section: string
  readonly table: string
  readonly contestant: string
  readonly committed: number
  /** The measured ratio, or undefined if the run did not measure this contestant. */
  readonly measured: number | undefined
}

/** Returns the ratios that fell. Only sections that were measured are compared. */
export function fallsOf(committed: Figures, measured: Figures): Fall[] {
  return rowsOf(committed)
    .filter(({ section }) => section in measured)
    .map(({ ratio, ...row }) => ({
      ...row,
      committed: ratio,
      measured: measured[row.section]?.[row.table]?.[row.contestant],
    }))
    .filter((row) => !(row.measured !== undefined && row.measured >= row.committed * (1 - TOLERANCE)))
}

/** Returns the falls of a first run that a second run confirms, with the better ratio of the two runs. */
export function confirmedFalls(first: readonly Fall[], second: readonly Fall[]): Fall[] {
  return first.flatMap((fall) => {
    const again = second.find((other) => keyOf(other) === keyOf(fall))
    if (again === undefined) return []
    const ratios = [fall.measured, again.measured].filter((ratio) => ratio !== undefined)
    return [{ ...fall, measured: ratios.length === 0 ? undefined : Math.max(...ratios) }]
  })
}

/** Returns the measured ratios without a committed one, each as "section, table, contestant". */
export function newFiguresOf(committed: Figures, measured: Figures): string[] {
  return rowsOf(measured)
    .filter(({ section, table, contestant }) => committed[section]?.[table]?.[contestant] === undefined)
    .map(({ section, table, contestant }) => [section, table, contestant].join(', '))
}

/** Returns a Markdown table of the ratios that fell. */
export function tableOfFalls(falls: readonly Fall[]): string {
  const head = '| section | table | contestant | committed | measured | change |\n|---|---|---|---|---|---|'
  const lines = falls.map(({ section, table, contestant, committed, measured }) => {
    const cells = [section, table, contestant, committed, measured ?? 'not measured']
    const change = measured === undefined ? '–' : `${((measured / committed - 1) * 100).toFixed(0)} %`
    return `| ${[...cells, change].join(' | ')} |`
  })
  return [head, ...lines].join('\n')
}

interface Row {
  readonly section: string
  readonly table: string
  readonly contestant: string
  readonly ratio: number
}

function rowsOf(figures: Figures): Row[] {
  return Object.entries(figures).flatMap(([section, tables]) =>
    Object.entries(tables).flatMap(([table, ratios]) =>
      Object.entries(ratios).map(([contestant, ratio]) => ({ section, table, contestant, ratio })),
    ),
  )
}

const keyOf = ({ section, table, contestant }: Omit<Row, 'ratio'>): string =>
  JSON.stringify([section, table, contestant])
