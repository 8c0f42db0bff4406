import { type AST, RegExpParser } from '@eslint-community/regexpp'

/** The characters of which those that a class matches are examples of it. */
const EXAMPLES = 'a1A -_.%@/:"\\+=~\né'

/**
 * Returns beginnings of matches of a regular expression, each of which ends after another one of its parts, and all matches of
 * up to one repetition in which one choice differs. Repeated, they are the strings that a search is most likely slow for.
 */
export function piecesOf({ source, flags }: RegExp): readonly string[] {
  const { alternatives } = new RegExpParser().parsePattern(source, 0, source.length, flags.includes('u'))
  const pieces = alternatives.flatMap((alternative) => beginningsOf(alternative, flags))
  return [...new Set(pieces)].filter((piece) => piece !== '')
}

function beginningsOf({ elements }: AST.Alternative, flags: string): string[] {
  let before = ''
  return elements.flatMap((element) => {
    const found = [...partsOf(element, flags), ...examplesOf(element, flags)].map((text) => before + text)
    before += examplesOf(element, flags)[0] ?? ''
    return found
  })
}

/** Returns beginnings of the alternatives of a group. */
function partsOf(node: AST.Element, flags: string): string[] {
  if (node.type === 'Quantifier') return partsOf(node.element, flags)
  return alternativesOf(node).flatMap((alternative) => beginningsOf(alternative, flags))
}

function alternativesOf(node: AST.Element): readonly AST.Alternative[] {
  return 'alternatives' in node ? (node.alternatives as AST.Alternative[]) : []
}

function examplesOf(node: AST.Element, flags: string): string[] {
  switch (node.type) {
    case 'Character':
      return [String.fromCodePoint(node.value)]
    case 'CharacterSet':
    case 'CharacterClass': {
      const set = new RegExp(node.raw, flags.replace(/[gy]/g, ''))
      return [...EXAMPLES].filter((character) => set.test(character)).slice(0, 3)
    }
    case 'Quantifier':
      return examplesOf(node.element, flags).map((text) => text.repeat(Math.max(1, node.min)))
    default:
      if ('negate' in node && node.negate) return []
      return alternativesOf(node).flatMap(({ elements }) => {
        const each = elements.map((element) => examplesOf(element, flags)).filter(({ length }) => length > 0)
        const first = each.map(([text]) => text as string)
        return each.flatMap((texts, index) => texts.map((text) => first.with(index, text).join('')))
      })
  }
}
