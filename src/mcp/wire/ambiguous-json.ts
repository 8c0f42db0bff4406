import { endOfString } from './json-rpc.ts'

/** The most members of a message, or of its parameters. More of them are not kept. */
const MAX_MEMBERS = 64

const QUOTE = 0x22
const COMMA = 0x2c
const OPENING_BRACKET = 0x5b
const CLOSING_BRACKET = 0x5d
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d

/** An array or an object that decides which operation a message names. */
interface Part {
  readonly kind: 'batch' | 'message' | 'params' | 'reference'
  /** The names of the members so far, in one case. */
  readonly members: Set<string>
  /** The name of the latest member. */
  member: string
  expectsName: boolean
}

/**
 * Returns `true` if parsers of JSON may read different operations from a text: a message, its `params`, or the `ref` or
 * `notifications` in them has two members with the same name, ignoring case, or `__proto__`, or more than 64 members.
 * Arguments are not searched. The function reads the text once, and accepts text that is not JSON.
 */
export function isAmbiguousJson(text: string): boolean {
  const parts: Part[] = []
  /** The number of open arrays and objects that do not matter. */
  let others = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    const part = parts.at(-1)
    switch (code) {
      case QUOTE: {
        const end = endOfString(text, index)
        if (others === 0 && part?.expectsName && part.kind !== 'batch') {
          const name = nameIn(text.slice(index, end + 1))
          if (name === undefined || !add(part, name)) return true
        }
        index = end
        break
      }
      case OPENING_BRACE:
      case OPENING_BRACKET: {
        const kind = others === 0 ? kindOf(part, code === OPENING_BRACE) : undefined
        if (kind === undefined) others++
        else parts.push({ kind, members: new Set(), member: '', expectsName: true })
        break
      }
      case CLOSING_BRACE:
      case CLOSING_BRACKET:
        if (others > 0) others--
        else parts.pop()
        break
      case COMMA:
        if (others === 0 && part !== undefined) part.expectsName = true
    }
  }
  return false
}

function kindOf(outer: Part | undefined, isObject: boolean): Part['kind'] | undefined {
  if (!isObject) return outer === undefined ? 'batch' : undefined
  switch (outer?.kind) {
    case undefined:
    case 'batch':
      return 'message'
    case 'message':
      return outer.member === 'params' ? 'params' : undefined
    case 'params':
      return outer.member === 'ref' || outer.member === 'notifications' ? 'reference' : undefined
    case 'reference':
      return undefined
  }
}

/** Adds the name of a member. Returns `false` if that makes the part ambiguous. */
function add(part: Part, name: string): boolean {
  // Some parsers ignore the case of names. The first conversion covers letters such as U+017F.
  const folded = name.toUpperCase().toLowerCase()
  if (name === '__proto__' || part.members.has(folded) || part.members.size === MAX_MEMBERS) return false
  part.members.add(folded)
  part.member = name
  part.expectsName = false
  return true
}

function nameIn(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string
  } catch {
    return undefined
  }
}
