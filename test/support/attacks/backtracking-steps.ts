import { type AST, RegExpParser } from '@eslint-community/regexpp'

type Next = (index: number) => boolean

/** The elements that match one character. */
type One = AST.Character | AST.CharacterSet | AST.CharacterClass

/**
 * Returns the number of elements that a backtracking search tries until it has replaced all matches of a regular expression in a
 * string. The flags are ignored.
 */
export function stepsOf({ source }: RegExp, text: string): number {
  const { alternatives } = new RegExpParser().parsePattern(source)
  const search = new Search(text)
  for (let index = 0; index <= text.length; ) {
    let end = index
    search.choice(alternatives, index, (last) => {
      end = last
      return true
    })
    index = Math.max(end, index + 1)
  }
  return search.steps
}

class Search {
  steps = 0
  readonly #text: string
  readonly #sets = new Map<One, RegExp>()

  constructor(text: string) {
    this.#text = text
  }

  choice(alternatives: readonly AST.Alternative[], index: number, next: Next): boolean {
    return alternatives.some(({ elements }) => this.#sequence(elements, 0, index, next))
  }

  #sequence(elements: readonly AST.Element[], at: number, index: number, next: Next): boolean {
    const element = elements[at]
    if (element === undefined) return next(index)
    return this.#element(element, index, (after) => this.#sequence(elements, at + 1, after, next))
  }

  #element(element: AST.Element, index: number, next: Next): boolean {
    this.steps++
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        return this.choice(element.alternatives, index, next)
      case 'Quantifier':
        return isOne(element.element)
          ? this.#run(element, element.element, index, next)
          : this.#repeat(element, 0, index, next)
      case 'Assertion':
        return this.#holds(element, index) && next(index)
      default:
        return isOne(element) && this.#matches(element, index) && next(index + 1)
    }
  }

  /** Repeats one character without recursion, because it may be repeated thousands of times. */
  #run({ min, max, greedy }: AST.Quantifier, one: One, index: number, next: Next): boolean {
    let count = 0
    const more = () => {
      this.steps++
      return count < max && this.#matches(one, index + count) && ++count > 0
    }
    while (count < min) if (!more()) return false
    if (!greedy) {
      do if (next(index + count)) return true
      while (more())
      return false
    }
    while (more());
    for (; count >= min; count--) {
      this.steps++
      if (next(index + count)) return true
    }
    return false
  }

  #repeat(quantifier: AST.Quantifier, count: number, index: number, next: Next): boolean {
    const { min, max, greedy, element } = quantifier
    const more = () =>
      count < max &&
      this.#element(
        element,
        index,
        (after) => (after > index || count < min) && this.#repeat(quantifier, count + 1, after, next),
      )
    if (count < min) return more()
    return greedy ? more() || next(index) : next(index) || more()
  }

  #holds(assertion: AST.Assertion, index: number): boolean {
    switch (assertion.kind) {
      case 'start':
        return index === 0
      case 'end':
        return index === this.#text.length
      case 'word': {
        const isEdge = this.#isWord(index - 1) !== this.#isWord(index)
        return isEdge !== assertion.negate
      }
      default:
        return this.choice(assertion.alternatives, index, () => true) !== assertion.negate
    }
  }

  #isWord(index: number): boolean {
    return /\w/.test(this.#text[index] ?? '')
  }

  #matches(one: One, index: number): boolean {
    const set = this.#sets.get(one) ?? new RegExp(`^${one.raw}$`, 's')
    this.#sets.set(one, set)
    return index < this.#text.length && set.test(this.#text[index] as string)
  }
}

function isOne(element: AST.Element): element is One {
  return element.type === 'Character' || element.type === 'CharacterSet' || element.type === 'CharacterClass'
}
