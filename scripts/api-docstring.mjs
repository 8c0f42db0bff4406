/**
 * Parses a docstring into `{ description, params, returns, throws, examples, see }`. It expects the format of API
 * Extractor, in which each block tag begins a line.
 */
export function readDocstring(comment) {
  const [description, ...blocks] = comment
    .replace(/^\/\*\*|\*\/\s*$/g, '')
    .replace(/^ *\* ?/gm, '')
    .split(/^(?=@\w)/m)
    .map((part) => part.trim())
  const of = (tag) =>
    blocks.filter((block) => block.startsWith(`@${tag}`)).map((block) => block.slice(tag.length + 1).trim())
  return {
    description,
    params: of('param').map((block) => {
      const [, name, text] = /^(\S+)\s+(?:- )?(.*)$/s.exec(block)
      return { name, text }
    }),
    returns: of('returns')[0],
    throws: of('throws').map((block) => {
      const [, type = '', text] = /^(?:\{(.*?)\})?\s*(.*)$/s.exec(block)
      return { type, text }
    }),
    // API Extractor shortens every indentation to one space, except in a code block.
    examples: of('example').map((block) => (block.includes('```') ? block : block.replace(/^ /gm, '  '))),
    see: of('see'),
  }
}
