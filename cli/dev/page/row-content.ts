import type { Row } from '../events/row.ts'
import { element, type PageElement } from './browser.ts'

const SIGNS: Readonly<Record<Row['tone'], string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

/** Returns the elements of a line. @param about a text after the title */
export function rowContent(row: Row, about: string): readonly PageElement[] {
  const { time, tone, word, title, facts, hint } = row
  const what = element('span', 'what', element('span', 'title', title))
  if (about !== '') what.append(element('span', 'about', about))
  for (const fact of facts) what.append(element('span', 'fact', fact))
  if (hint !== undefined && tone === 'bad') what.append(element('span', 'hint', hint))
  const chip = element('span', 'chip', element('span', 'sign', SIGNS[tone]), word)
  return [element('span', 'time', timeText(time)), chip, what]
}

/** Formats a time as the local time of day with milliseconds. */
export function timeText(iso: string): string {
  const time = new Date(iso)
  if (Number.isNaN(time.getTime())) return iso
  const two = (part: number): string => String(part).padStart(2, '0')
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':')
  return `${clock}.${String(time.getMilliseconds()).padStart(3, '0')}`
}
