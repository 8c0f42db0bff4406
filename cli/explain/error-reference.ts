import { readFileSync } from 'node:fs'
import { nearestName } from '../../src/options/nearest-name.ts'
import { packageFile } from '../package-file.ts'

/** The page in this package that describes errors and options. */
const PAGE = 'docs/reference/errors.md'

export type EntryKind = 'error code' | 'option' | 'other'

/** The help for an error code, for an option, or for a function that takes options. */
export interface ReferenceEntry {
  /** The argument of `explain`: an error code, or the anchor or the heading of an option. */
  readonly code: string
  readonly kind: EntryKind
  readonly heading: string
  /** Markdown, without the heading and without nested entries. */
  readonly body: string
  /** The codes of nested entries. */
  readonly children: readonly string[]
}

/** A heading of the page with the lines up to the next heading. */
interface Section {
  readonly level: number
  readonly heading: string
  readonly body: string
}

/** The entries of the reference page of errors. */
export class ErrorReference {
  readonly entries: readonly ReferenceEntry[]
  readonly #byKey: ReadonlyMap<string, ReferenceEntry>

  constructor(markdown: string) {
    this.entries = entriesOf(sectionsOf(markdown))
    this.#byKey = new Map(
      this.entries.flatMap((entry) =>
        [entry.heading, entry.code].map((name) => [keyOf(name), entry] as const),
      ),
    )
  }

  /**
   * Returns the entry for an error code (`MCP_CONFIG_INVALID_OPTION`), an anchor (`oauth-issuer`), or an option
   * (`oauth.issuer`, `oauth.dpop.nonce`, `issuer`), in any case.
   */
  find(name: string): ReferenceEntry | undefined {
    const anchor = name.slice(name.lastIndexOf('#') + 1)
    if (keyOf(anchor) === '') return undefined
    return (
      this.#byKey.get(keyOf(anchor)) ?? this.#byKey.get(keyOf(`oauth-${anchor}`)) ?? this.#ownerOf(anchor)
    )
  }

  /** Returns the code that is nearest to a misspelled one, or `undefined` if none is near. */
  nearest(name: string): string | undefined {
    const codes = new Map(this.entries.map(({ code }) => [keyOf(code), code]))
    const key = nearestName(keyOf(name), codes.keys())
    return key === undefined ? undefined : codes.get(key)
  }

  /** Returns the entry that lists a nested option: that of `oauth.dpop` for `oauth.dpop.nonce`. */
  #ownerOf(name: string): ReferenceEntry | undefined {
    const end = Math.max(name.lastIndexOf('.'), name.lastIndexOf('-'))
    if (end === -1) return undefined
    const owner = this.#byKey.get(keyOf(name.slice(0, end)))
    const member = name.slice(end + 1).toLowerCase()
    return owner?.body.toLowerCase().includes(`\`${member}\``) === true ? owner : undefined
  }
}

/** Reads the reference page that this package contains. */
export function readErrorReference(): ErrorReference {
  return new ErrorReference(readFileSync(packageFile(PAGE), 'utf8'))
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

function sectionsOf(markdown: string): Section[] {
  const sections: { level: number; heading: string; lines: string[] }[] = []
  let isCode = false
  for (const line of markdown.split(/\r?\n/)) {
    if (line.startsWith('```')) isCode = !isCode
    const [, marks, heading] = isCode ? [] : (/^(#{1,6}) (.+)$/.exec(line) ?? [])
    if (marks !== undefined && heading !== undefined)
      sections.push({ level: marks.length, heading: heading.trim(), lines: [] })
    else sections.at(-1)?.lines.push(line)
  }
  return sections.map(({ level, heading, lines }) => ({ level, heading, body: lines.join('\n').trim() }))
}

function entriesOf(sections: readonly Section[]): ReferenceEntry[] {
  return sections.flatMap((section, index) => {
    if (section.level < 3 || section.body === '') return []
    const { heading, body } = section
    return [
      { code: codeOf(section), kind: kindOf(section), heading, body, children: childrenOf(sections, index) },
    ]
  })
}

function childrenOf(sections: readonly Section[], index: number): string[] {
  const { level, heading } = sections[index] as Section
  const end = sections.findIndex((section, other) => other > index && section.level <= level)
  const nested = sections.slice(index + 1, end === -1 ? undefined : end)
  const members = sections.filter((section) => section.heading.startsWith(`${heading}: `))
  return [...nested, ...members].filter(({ body }) => body !== '').map(codeOf)
}

function codeOf({ heading }: Section): string {
  return heading.includes(' ') ? anchorOf(heading) : heading
}

function kindOf({ level, heading }: Section): EntryKind {
  if (/^[A-Z]+(?:_[A-Z]+)+$/.test(heading)) return 'error code'
  return level > 3 ? 'option' : 'other'
}
