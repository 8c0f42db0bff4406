import type { StandardSchemaV1 } from '@standard-schema/spec'
import { cutText } from '../../base/cut-text.ts'

/** The maximum length of a report. Together with a prefix, such as a tool's name, it has at most 4,000 characters. */
const MAX_REPORT = 3_800

/** The maximum length of one issue. */
const MAX_ISSUE = 1_000

/**
 * Describes issues in one line, with their paths and the messages of the schema's library. Lists the first issues, shortens long
 * ones, and counts the rest: `name: Required; and 1,480 more`.
 */
export function problemIn(issues: readonly StandardSchemaV1.Issue[]): string {
  const reported: string[] = []
  let length = 0
  for (const issue of issues) {
    if (reported.length === MAX_ISSUES) break
    const text = issueText(issue)
    if (length + text.length > MAX_REPORT - MAX_COUNT.length) break
    reported.push(text)
    length += text.length + SEPARATOR.length
  }
  const more = issues.length - reported.length
  if (more > 0) reported.push(`and ${more.toLocaleString('en-US')} more`)
  return reported.join(SEPARATOR)
}

const SEPARATOR = '; '

/** The longest possible count of further issues. */
const MAX_COUNT = `${SEPARATOR}and 9,007,199,254,740,991 more`

function issueText({ message, path = [] }: StandardSchemaV1.Issue): string {
  let at = ''
  for (const segment of path) {
    if (at.length > MAX_ISSUE) break
    const key = String(typeof segment === 'object' ? segment.key : segment)
    at += at === '' ? key.slice(0, MAX_ISSUE) : `.${key.slice(0, MAX_ISSUE)}`
  }
  return cutText(at === '' ? message : `${cutText(at, MAX_ISSUE / 2, '…')}: ${message}`, MAX_ISSUE, '…')
}

/** The maximum number of issues in a report. */
const MAX_ISSUES = 20
