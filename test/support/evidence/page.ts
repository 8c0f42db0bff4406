import { type Requirement, STATUSES, type Status } from './requirement.ts'
import { SOURCES } from './sources.ts'

const INTRODUCTION = `# Evidence

<!-- Generated from test/support/evidence by \`npm run evidence\`. Change those files instead. -->

This page lists requirements of specifications and security guides, and the test that shows that this package meets each of them. The requirements are
in our own words: the sources have the exact ones. Requirements for MCP clients are left out, except in AISVS.

| Status | Meaning |
|---|---|
| implemented | The package meets the requirement with its defaults |
| by option | The package meets it if you set the named option |
| delegated | The named party must meet it: the client, the operator, or your application |
| gap | The package does not meet it, or not to the letter |

To repeat the proof, run \`npm run test:only\` in the repository, which runs all tests named here. The tests also check that each named test exists and that this page is up to date.`

/** Returns the page docs/guides/evidence.md. */
export function evidencePage(): string {
  return `${[
    INTRODUCTION,
    `## Summary\n\n${summary()}`,
    ...SOURCES.map(({ title, about, rows }) => `## ${title}\n\n${about}\n\n${requirementTable(rows)}`),
  ].join('\n\n')}\n`
}

function summary(): string {
  const counts = (rows: readonly Requirement[]): string[] =>
    STATUSES.map((status) => String(rows.filter((row) => row.status === status).length))
  return table(
    ['Source', ...STATUSES],
    [
      ...SOURCES.map(({ title, short, rows }) => [`[${short}](#${anchorOf(title)})`, ...counts(rows)]),
      ['All', ...counts(SOURCES.flatMap(({ rows }) => rows))],
    ],
  )
}

const LABELS: Readonly<Record<Status, string>> = {
  implemented: 'implemented',
  'by option': 'by option',
  delegated: 'delegated',
  gap: '**gap**',
}

function requirementTable(rows: readonly Requirement[]): string {
  const hasLevels = rows.some(({ level }) => level !== '')
  return table(
    ['Section', ...(hasLevels ? ['Level'] : []), 'Requirement', 'Status', 'How', 'Test'],
    rows.map(({ section, level, requirement, status, how, test }) => [
      section,
      ...(hasLevels ? [level] : []),
      requirement,
      LABELS[status],
      how,
      test === undefined ? '' : `\`${test[0]}\`: ${plain(test[1])}`,
    ]),
  )
}

/** Returns a title in Markdown that shows it as it is. */
function plain(title: string): string {
  return title.replace(/[\\`*_<>[\]{}]/g, '\\$&')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

/** Returns the anchor of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-')
}
