import { stripVTControlCharacters } from 'node:util'

/** The settings of the output. */
export interface TerminalTextOptions {
  /** The maximum length of a line of prose. Code is not wrapped. */
  readonly width: number
  readonly colors: boolean
  /** Returns what to print for the target of a link, or `undefined` to print only its text. */
  readonly describeLink: (text: string, target: string) => string | undefined
}

/** A block of Markdown: a code block, a table, an item of a list, or a paragraph. */
type Block =
  | { readonly kind: 'code'; readonly info: string; readonly lines: string[] }
  | { readonly kind: 'table'; readonly rows: string[][] }
  | { readonly kind: 'item'; readonly mark: string; text: string }
  | { readonly kind: 'paragraph'; text: string }

const CODE = 36
const BOLD = 1
/** A code span, a link, or bold text. */
const INLINE = /`[^`]+`|\[((?:`[^`]*`|[^\]`])+)\]\(([^)\s]+)\)|\*\*([^*]+)\*\*/g

/** Converts Markdown to text for a terminal: wrapped, without markup, and with links spelled out. */
export function terminalText(markdown: string, options: TerminalTextOptions): string {
  const blocks = blocksOf(markdown)
  return blocks
    .map((block, index) => {
      const isNextItem = block.kind === 'item' && blocks[index - 1]?.kind === 'item'
      return `${index === 0 ? '' : isNextItem ? '\n' : '\n\n'}${blockText(block, options)}`
    })
    .join('')
}

/** Prints bold text if colors are enabled. */
export function bold(text: string, colors: boolean): string {
  return paint(BOLD, text, colors)
}

function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = []
  let current: Block | undefined
  const begin = (block: Block): void => {
    current = block
    blocks.push(block)
  }
  for (const line of markdown.split(/\r?\n/)) {
    if (current?.kind === 'code') {
      if (line.startsWith('```')) current = undefined
      else current.lines.push(line)
      continue
    }
    const [, mark, item = ''] = /^\s*([-*]|\d+\.) (.*)$/.exec(line) ?? []
    if (line.startsWith('```')) begin({ kind: 'code', info: line.slice(3).trim(), lines: [] })
    else if (line.trim() === '') current = undefined
    else if (line.startsWith('|')) {
      if (current?.kind !== 'table') begin({ kind: 'table', rows: [] })
      if (current?.kind === 'table' && !/^[|:\s-]+$/.test(line)) current.rows.push(cellsOf(line))
    } else if (mark !== undefined) begin({ kind: 'item', mark: mark === '*' ? '-' : mark, text: item })
    else if (current?.kind === 'item' || current?.kind === 'paragraph') current.text += ` ${line.trim()}`
    else begin({ kind: 'paragraph', text: line.trim() })
  }
  return blocks
}

/** Splits a row of a table. A cell can contain an escaped `|`. */
function cellsOf(row: string): string[] {
  return row
    .replace(/^\||\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.replaceAll('\\|', '|').trim())
}

function blockText(block: Block, options: TerminalTextOptions): string {
  switch (block.kind) {
    case 'code': {
      const label = block.info.split(' ').includes('wrong') ? 'Incorrect:\n\n' : ''
      return label + block.lines.map((line) => (line === '' ? '' : `    ${line}`)).join('\n')
    }
    case 'table':
      return tableText(block.rows, options)
    case 'item':
      return wrap(inlineText(block.text, options), options.width, `${block.mark} `, '  ')
    case 'paragraph':
      return wrap(inlineText(block.text, options), options.width)
  }
}

/** Prints each row as a term with the other cells below it: columns do not fit on a narrow terminal. */
function tableText([header = [], ...rows]: readonly string[][], options: TerminalTextOptions): string {
  return rows
    .map(([term = '', ...cells]) => {
      const details = cells.map((cell, index) => {
        const name = cells.length > 1 ? `${header[index + 1] ?? ''}: ` : ''
        return cell === '' ? '' : wrap(name + inlineText(cell, options), options.width, '      ', '      ')
      })
      const name = wrap(inlineText(term, options), options.width, '  ', '  ')
      return [name, ...details.filter((detail) => detail !== '')].join('\n')
    })
    .join('\n')
}

function inlineText(markdown: string, options: TerminalTextOptions): string {
  return markdown.replace(INLINE, (match, text?: string, target?: string, strong?: string) => {
    if (strong !== undefined) return paint(BOLD, inlineText(strong, options), options.colors)
    if (text === undefined || target === undefined)
      return options.colors ? paint(CODE, match.slice(1, -1), true) : match
    const place = options.describeLink(text, target)
    const shown = inlineText(text, options)
    return place === undefined ? shown : `${shown} (${place})`
  })
}

function paint(code: number, text: string, colors: boolean): string {
  return colors ? `\x1b[${code}m${text}\x1b[0m` : text
}

/** Breaks text at spaces. @param first the beginning of the first line @param rest the beginning of the others */
function wrap(text: string, width: number, first = '', rest = ''): string {
  const [begin = '', ...words] = text.split(' ')
  const lines = [first + begin]
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`
    if (stripVTControlCharacters(longer).length > width) lines.push(rest + word)
    else lines[lines.length - 1] = longer
  }
  return lines.join('\n')
}
