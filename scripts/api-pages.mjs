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

\`npm run api\` generates these pages from the docstrings. The lists of members omit \`readonly\`, which every property has, and the
\`undefined\` that an optional property accepts.

The folder \`docs/internals/api-report\` of the repository contains the same surface as declarations only. Its diff shows what has changed for users.
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
  const tables = pages.map(({ page, specifier, groups }) => {
    const rows = groups
      .filter(({ title }) => title !== 'Not exported')
      .flatMap(({ title, sections }) => [
        `| **${title}** | |`,
        ...sections.map(([item]) => `| ${writer.nameOf(item)} | ${writer.firstSentence(item)} |`),
      ])
    return `## [${specifier}](${page}.md)\n\n${['| | |', '|---|---|', ...rows].join('\n')}\n`
  })
  return [INTRODUCTION, ...tables].join('\n')
}

function entryPage({ page, specifier, groups }, writer) {
  const also =
    page === 'gate'
      ? ' This entry also exports everything that [`mcp-gatekit/telemetry`](telemetry.md) exports.'
      : ''
  return [
    `# ${specifier}\n\nThe exports of \`${specifier}\`. [All entries](index.md).${also}\n`,
    ...groups.flatMap(({ title, sections }) => [
      `## ${title}\n`,
      ...(title === 'Not exported' ? ['Types that signatures contain and that cannot be imported.\n'] : []),
      ...sections.map((section) => writer.section(section)),
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

  firstSentence(item) {
    const { description } = readDocstring(item.docComment)
    const [sentence] = /^.*?\.(?=\s|$)|^.*/s.exec(description)
    return this.#prose(sentence.replace(/\s+/g, ' '), item.name).replaceAll('|', '\\|')
  }

  section(overloads) {
    const [item] = overloads
    const blocks = overloads.flatMap((overload) => [
      // Such a signature only repeats the heading.
      ...(/^interface \w+$/.test(signatureOf(overload)) ? [] : [codeBlock(signatureOf(overload))]),
      ...this.#docstring(overload),
    ])
    const bases = this.#surface
      .exportedBasesOf(item)
      .map((base) => `Includes the members of ${this.nameOf(base)}.`)
    const members = this.#surface.membersOf(item).map((member) => this.#member(member, item.name))
    return [`### ${item.name}`, ...blocks, ...(members.length > 0 ? [members.join('\n')] : []), ...bases, '']
      .join('\n\n')
      .replace(/\n\n$/, '\n')
  }

  #member(member, owner) {
    const [first, ...others] = this.#docstring(member, owner)
    const text = [`${this.#code(memberTokens(member))}${first === undefined ? '' : `: ${first}`}`, ...others]
    return `- ${text.join('\n\n').replace(/\n(?=.)/g, '\n  ')}`
  }

  /** Returns a docstring as blocks of Markdown. */
  #docstring({ docComment, name }, owner = name) {
    const { description, params, returns, throws, examples, see } = readDocstring(docComment)
    const prose = (text) => this.#prose(text, owner)
    const blocks = [
      prose(description),
      params.map(({ name, text }) => `- \`${name}\`: ${prose(text)}`).join('\n'),
      returns && `Returns: ${prose(returns)}`,
      ...throws.map(({ type, text }) =>
        `Throws ${type === '' ? '' : `${prose(`\`${type}\``)} `}${prose(text)}`.trim(),
      ),
      ...examples.map((example) => (example.includes('```') ? example : codeBlock(example))),
      ...see.map((reference) => `See ${prose(linked(reference))}.`),
    ]
    return blocks.filter(Boolean)
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

  /** Writes a signature as code, and links the types of this package. */
  #code(tokens) {
    const parts = []
    for (const token of tokens) {
      const found = this.#surface.referredBy(token)
      if (found !== undefined) parts.push({ text: token.text, href: this.#hrefOf(found.item.name) })
      else if (parts.length > 0 && parts.at(-1).href === undefined) parts.at(-1).text += token.text
      else parts.push({ text: token.text })
    }
    return parts
      .filter(({ text }) => text !== '')
      .map(({ text, href }) => (href === undefined ? codeSpan(text) : `[${codeSpan(text)}](${href})`))
      .join('')
  }

  #hrefOf(name) {
    const { page, anchor } = this.#links.get(name)
    return `${page === this.#page ? '' : `${page}.md`}#${anchor}`
  }
}

/** Links the URLs and the pages in a `@see` block. Pages are named by their path in the package. */
function linked(reference) {
  return reference
    .replace(/\bhttps:\/\/[^\s)]+/g, (url) => `[${url.slice('https://'.length)}](${url})`)
    .replace(/\bdocs\/([\w./-]+\.md(?:#[\w-]+)?)/g, (path, page) => `[${path}](../../${page})`)
    .replace(/\.$/, '')
}

function signatureOf({ kind, excerptTokens }) {
  const text = excerptTokens.map((token) => token.text).join('')
  return (kind === 'Variable' ? `const ${text}` : text)
    .replace(/^export (?:declare )?|^declare /, '')
    .replace(/;?\s*$/, '')
    .replace(/^(?: {4})+/gm, (indent) => '  '.repeat(indent.length / 4))
}

/** Returns the tokens of a member on one line, without `readonly`, the final semicolon, and the `undefined` of optional members. */
function memberTokens({ excerptTokens, isOptional }) {
  const tokens = excerptTokens.map((token) => ({ ...token, text: token.text.replace(/\s+/g, ' ') }))
  tokens[0].text = tokens[0].text.replace(/\breadonly /, '')
  tokens.at(-1).text = tokens.at(-1).text.replace(/;$/, '')
  const last = tokens.findLast(({ text }) => text !== '')
  if (isOptional) last.text = last.text.replace(/ \| undefined$/, '')
  return tokens
}

function codeBlock(code) {
  return `\`\`\`ts\n${code}\n\`\`\``
}

/** Markdown removes one space from both ends of a code span if both have one. */
function codeSpan(text) {
  const fence = text.includes('`') ? '``' : '`'
  return fence + (/^ .* $/.test(text) || text.includes('`') ? ` ${text} ` : text) + fence
}
