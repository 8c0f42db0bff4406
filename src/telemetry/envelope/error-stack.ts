import { cutText } from '../../cut-text.ts'
import type { ErrorLink } from '../../describe-error.ts'
import type { KeyRules } from './redaction.ts'

/** The length of a name with its message that always stays in a stack, if the stack may be long enough. */
const MIN_HEAD = 60

/** Returns the stack of an error. */
export function stackOf(links: readonly ErrorLink[]): string {
  return links.map(({ head, frames }) => head + frames).join('')
}

/**
 * Redacts the errors of a stack, and cuts them so that the stack fits. A message takes no more than a quarter of the share of
 * its error. Each error keeps its first frame, and what is left goes to the first errors.
 */
export function fittedLinks(links: readonly ErrorLink[], rules: KeyRules): readonly ErrorLink[] {
  const redacted = links.map((link) => ({
    ...link,
    name: rules.name(link.name),
    message: rules.string(link.message),
    head: rules.string(link.head),
    frames: rules.string(link.frames),
  }))
  const { maxLength } = rules
  if (redacted.reduce((sum, { head, frames }) => sum + head.length + frames.length, 0) <= maxLength)
    return redacted
  const share = Math.floor(maxLength / links.length)
  const maxHead = Math.max(Math.min(MIN_HEAD, share), share >> 2)
  let spare = maxLength
  const sized = redacted.map((link) => {
    const head = cutText(link.head, maxHead, '…')
    const next = link.frames.indexOf('\n', 1)
    const size = Math.min(next === -1 ? link.frames.length : next, share - head.length)
    spare -= head.length + size
    return { ...link, head, size }
  })
  return sized.map(({ size, ...link }) => {
    const frames = cutFrames(link.frames, size + spare)
    spare -= Math.max(0, frames.length - size)
    return { ...link, frames }
  })
}

/** Returns the whole frames of the first characters, or the beginning of the first frame. */
function cutFrames(frames: string, max: number): string {
  if (frames.length <= max) return frames
  const end = frames.lastIndexOf('\n', max)
  return cutText(frames, end > 0 ? end : max)
}
