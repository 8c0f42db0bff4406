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

/** Markdown by file name: a page for each entry, and the one that leads to them. */
export function renderPages(surface) {
  const pages = surface.entries.map((entry) => ({ ...entry, groups: groupsOf(entry.items) }))
  const links = new Map(pages.flatMap(anchorsOf))
  return new Map([
    ['index.md', indexPage(pages, new Writer(surface, links, 'index'))],
    ...pages.map((page) => [`${page.page}.md`, entryPage(page, new Writer(surface, links, page.page))]),
  ])
}

/** `{ title, sections }`; a section is what has one name: an item, or the overloads of a function. */
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

/** For each name its page and anchor, as GitHub makes them of headings. */
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
      ? ' All of [`mcp-gatekit/telemetry`](telemetry.md) can be imported from here as well.'
      : ''
  return [
    `# ${specifier}\n\nWhat \`import … from '${specifier}'\` gives. [All entries](index.md).${also}\n`,
    ...groups.flatMap(({ title, sections }) => [
      `## ${title}\n`,
      ...(title === 'Not exported' ? ['Types that others name, and that cannot be imported.\n'] : []),
      ...sections.map((section) => writer.section(section)),
    ]),
  ].join('\n')
}

/** Writes items as markdown, with links as they are from one page. */
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
      // No more than the heading says.
      ...(/^interface \w+$/.test(signatureOf(overload)) ? [] : [codeBlock(signatureOf(overload))]),
      ...this.#docstring(overload),
    ])
    const bases = this.#surface.exportedBasesOf(item).map((base) => `And all that ${this.nameOf(base)} has.`)
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

  /** Blocks of markdown. */
  #docstring({ docComment, name }, owner = name) {
    const { description, params, returns, throws, examples } = readDocstring(docComment)
    const prose = (text) => this.#prose(text, owner)
    const blocks = [
      prose(description),
      params.map(({ name, text }) => `- \`${name}\`: ${prose(text)}`).join('\n'),
      returns && `Returns: ${prose(returns)}`,
      ...throws.map(({ type, text }) =>
        `Throws ${type === '' ? '' : `${prose(`\`${type}\``)} `}${prose(text)}`.trim(),
      ),
      ...examples.map(codeBlock),
    ]
    return blocks.filter(Boolean)
  }

  /** Text in which names of ours lead to them. */
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

  /** A signature as code in which types of ours lead to them. */
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

function signatureOf({ kind, excerptTokens }) {
  const text = excerptTokens.map((token) => token.text).join('')
  return (kind === 'Variable' ? `const ${text}` : text)
    .replace(/^export (?:declare )?|^declare /, '')
    .replace(/;?\s*$/, '')
    .replace(/^(?: {4})+/gm, (indent) => '  '.repeat(indent.length / 4))
}

/** On one line, without `readonly`, the final semicolon, and the `undefined` of what is optional anyway. */
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

/** A code span takes one space from either end when both have one. */
function codeSpan(text) {
  const fence = text.includes('`') ? '``' : '`'
  return fence + (/^ .* $/.test(text) || text.includes('`') ? ` ${text} ` : text) + fence
}
