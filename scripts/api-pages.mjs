import { readDocstring } from './api-docstring.mjs'
import { isExported } from './api-surface.mjs'

const GROUPS = [
  { title: 'Functions', holds: ({ kind }) => kind === 'Function' },
  { title: 'Values', holds: ({ kind }) => kind === 'Variable' },
  { title: 'Classes', holds: ({ kind, name }) => kind === 'Class' && !name.endsWith('Error') },
  { title: 'Errors', holds: ({ kind, name }) => kind === 'Class' && name.endsWith('Error') },
  { title: 'Options', holds: ({ name }) => /(?:Options|Config)$/.test(name) },
  { title: 'Types', holds: () => true },
]

const INTRODUCTION = `# API reference

\`npm run api\` generates these pages: each export and each method of a class with the first sentence of its docstring, and the names of
all other members. Your editor shows the whole docstrings with the types, the errors, and an example. It reads them from the declarations in the
package. [Errors](../errors.md) explains the options.

The folder \`test/api-report\` of the repository contains the same surface as declarations only. Its diff shows what has changed for users.
`

/** Returns Markdown by file name: a page for each entry, and an index. */
export function renderPages(surface) {
  const pages = surface.entries.map((entry) => ({ ...entry, groups: groupsOf(entry.items) }))
  const links = new Map(pages.flatMap(anchorsOf))
  return new Map([
    ['index.md', indexPage(pages, new Writer(surface, links, 'index'))],
    ...pages.map((page) => [`${page.page}.md`, entryPage(page, new Writer(surface, links, page.page))]),
  ])
}

/** Returns groups `{ title, sections }`. A section is an item, or the overloads of a function. */
function groupsOf(items) {
  const sections = new Map()
  for (const item of items) sections.set(item.name, [...(sections.get(item.name) ?? []), item])
  const groups = GROUPS.map(({ title }) => ({ title, sections: [] }))
  const notExported = { title: 'Not exported', sections: [] }
  for (const section of sections.values()) {
    const [item] = section
    const group = isExported(item) ? groups[GROUPS.findIndex(({ holds }) => holds(item))] : notExported
    group.sections.push(section)
  }
  return [...groups, notExported].filter((group) => group.sections.length > 0)
}

/** Returns the page and the anchor of each name. The anchors are those of GitHub. */
function anchorsOf({ page, groups }) {
  const used = new Map()
  const anchor = (heading) => {
    const slug = heading.toLowerCase().replaceAll(' ', '-')
    const count = used.get(slug) ?? 0
    used.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  }
  return groups.flatMap(({ title, sections }) => {
    anchor(title)
    return sections.map(([{ name }]) => [name, { page, anchor: anchor(name) }])
  })
}

function indexPage(pages, writer) {
  const lists = pages.map(({ page, specifier, groups }) => {
    const lines = groups
      .filter(({ title }) => title !== 'Not exported')
      .map(({ title, sections }) => `- ${title}: ${sections.map(([item]) => writer.nameOf(item)).join(', ')}`)
    return `## [${specifier}](${page}.md)\n\n${lines.join('\n')}\n`
  })
  return [INTRODUCTION, ...lists].join('\n')
}

function entryPage({ page, specifier, groups }, writer) {
  const also =
    page === 'gate'
      ? ' This entry also exports everything that [`mcp-gatekit/telemetry`](telemetry.md) exports. `mcp-gatekit/gate` exports the gate and the verifiers alone: see [Protect an existing server](../../guides/existing-servers.md).'
      : ''
  return [
    `# ${specifier}\n\nThe exports of \`${specifier}\`. [All entries](index.md).${also}\n`,
    ...groups.flatMap(({ title, sections }) => [
      `## ${title}\n`,
      ...(title === 'Not exported' ? ['Types that signatures contain and that cannot be imported.\n'] : []),
      ...sections.map(([item]) => writer.section(item)),
    ]),
  ].join('\n')
}

/** Writes items as Markdown with the links of one page. */
class Writer {
  #surface
  #links
  #page

  constructor(surface, links, page) {
    this.#surface = surface
    this.#links = links
    this.#page = page
  }

  nameOf({ name }) {
    return `[\`${name}\`](${this.#hrefOf(name)})`
  }

  /** Writes an export: its first sentence, its references, and its members: those of a class with their first sentences. */
  section(item) {
    const bases = this.#surface
      .exportedBasesOf(item)
      .map((base) => `Includes the members of ${this.nameOf(base)}.`)
    const { see } = readDocstring(item.docComment)
    const members = new Map(
      this.#surface.membersOf(item).map((member) => [member.name, this.#member(member, item.name)]),
    )
    return [
      `### ${item.name}`,
      this.#firstSentence(item, item.name),
      ...see.map((reference) => `See ${this.#prose(linked(reference), item.name)}.`),
      ...(members.size === 0
        ? []
        : [item.kind === 'Class' ? [...members.values()].join('\n') : `Members: ${namesOf(members)}.`]),
      ...bases,
    ]
      .filter(Boolean)
      .join('\n\n')
      .concat('\n')
  }

  #member(member, owner) {
    const name = /^(?:Method|Constructor)/.test(member.kind)
      ? `${member.name || 'constructor'}()`
      : member.name
    const sentence = this.#firstSentence(member, owner)
    return `- \`${member.isStatic ? 'static ' : ''}${name}\`${sentence === '' ? '' : `: ${sentence}`}`
  }

  #firstSentence({ docComment }, owner) {
    const [sentence] = /^.*?\.(?=\s|$)|^.*/s.exec(readDocstring(docComment).description)
    return this.#prose(sentence.replace(/\s+/g, ' '), owner)
  }

  /** Links the names of this package in a text. */
  #prose(text, owner) {
    return text
      .split(/(`[^`]*`|\{@link [^}]*\})/)
      .map((part, index) => {
        if (index % 2 === 0) return part.replaceAll('<', '&lt;')
        const code = part.replace(/^\{@link (.*)\}$/, '`$1`')
        const [, name] = /^`(\w+)(?:\(\))?`$/.exec(code) ?? []
        return name === undefined || name === owner || !this.#links.has(name)
          ? code
          : `[${code}](${this.#hrefOf(name)})`
      })
      .join('')
  }

  #hrefOf(name) {
    const { page, anchor } = this.#links.get(name)
    return `${page === this.#page ? '' : `${page}.md`}#${anchor}`
  }
}

function namesOf(members) {
  return [...members.keys()].map((name) => `\`${name}\``).join(', ')
}

/** Links the URLs and the pages in a `@see` block. Pages are named by their path in the package. */
function linked(reference) {
  return reference
    .replace(/\bhttps:\/\/[^\s)]+/g, (url) => `[${url.slice('https://'.length)}](${url})`)
    .replace(/\bdocs\/([\w./-]+\.md(?:#[\w-]+)?)/g, (path, page) => `[${path}](../../${page})`)
    .replace(/\.$/, '')
}
