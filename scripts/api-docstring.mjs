/**
 * Takes a docstring apart: `{ description, params, returns, throws, examples }`. It is as API Extractor writes it, every
 * block tag on a line of its own.
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
    // What is indented has one space left of its indentation.
    examples: of('example').map((block) => block.replace(/^ /gm, '  ')),
  }
}
