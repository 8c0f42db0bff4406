import { readFileSync } from 'node:fs'
import { nearestName } from '../../src/base/options/nearest-name.ts'
import { packageFile } from '../package-file.ts'

/** The page in this package that describes errors and options. */
const PAGE = 'docs/reference/errors.md'

export type EntryKind = 'error code' | 'option' | 'other'

/** Reads the reference of errors. @param markdown by default, the page that this package contains */
export function readErrorReference(markdown: string = readFileSync(packageFile(PAGE), 'utf8')) {
  const entries = entriesOf(markdown)
  const named = (name: string) =>
    entries.findLast(({ heading, code }) => [heading, code].some((own) => keyOf(own) === keyOf(name)))
  /** Returns the entry that lists a nested option: that of `oauth.dpop` for `oauth.dpop.nonce`. */
  const ownerOf = (name: string) => {
    const end = Math.max(name.lastIndexOf('.'), name.lastIndexOf('-'))
    const owner = end === -1 ? undefined : named(name.slice(0, end))
    return owner?.body.toLowerCase().includes(`\`${name.slice(end + 1).toLowerCase()}\``) ? owner : undefined
  }
  return {
    entries,
    /**
     * Returns the entry for an error code (`MCP_CONFIG_INVALID_OPTION`), an anchor (`oauth-issuer`), or an option
     * (`oauth.issuer`, `oauth.dpop.nonce`, `issuer`), in any case.
     */
    find(name: string) {
      const anchor = name.slice(name.lastIndexOf('#') + 1)
      return keyOf(anchor) === '' ? undefined : (named(anchor) ?? named(`oauth-${anchor}`) ?? ownerOf(anchor))
    },
    /** Returns the code that is nearest to a misspelled one, or `undefined` if none is near. */
    nearest(name: string): string | undefined {
      const codes = new Map(entries.map(({ code }) => [keyOf(code), code]))
      return codes.get(nearestName(keyOf(name), codes.keys()) ?? '')
    },
  }
}

/** Returns the form of a code in which case and punctuation do not matter. */
function keyOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9_]/g, '')
}

/** Returns the anchor of a heading, as GitHub generates it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')
}

/**
 * Returns the entries of a page: the help for an error code, for an option, or for a function that takes options. The `code` is
 * the argument of `explain`, the `body` Markdown without the heading and without nested entries, whose codes are `children`.
 */
function entriesOf(markdown: string) {
  const sections: { level: number; heading: string; lines: string[] }[] = []
  let isCode = false
  for (const line of markdown.split(/\r?\n/)) {
    if (line.startsWith('```')) isCode = !isCode
    const [, marks, heading] = isCode ? [] : (/^(#{1,6}) (.+)$/.exec(line) ?? [])
    if (marks !== undefined && heading !== undefined)
      sections.push({ level: marks.length, heading: heading.trim(), lines: [] })
    else sections.at(-1)?.lines.push(line)
  }
  const found = sections.map(({ level, heading, lines }) => ({
    level,
    heading,
    code: heading.includes(' ') ? anchorOf(heading) : heading,
    kind: kindOf(heading, level),
    body: lines.join('\n').trim(),
  }))
  return found.flatMap(({ level, ...entry }, index) => {
    if (level < 3 || entry.body === '') return []
    const after = found.slice(index + 1)
    const end = after.findIndex((section) => section.level <= level)
    const nested = end === -1 ? after : after.slice(0, end)
    const members = found.filter(({ heading }) => heading.startsWith(`${entry.heading}: `))
    const children = [...nested, ...members].filter(({ body }) => body !== '').map(({ code }) => code)
    return [{ ...entry, children }]
  })
}

function kindOf(heading: string, level: number): EntryKind {
  if (/^[A-Z]+(?:_[A-Z]+)+$/.test(heading)) return 'error code'
  return level > 3 ? 'option' : 'other'
}
