import { isObject } from '../base/options/value-kinds.ts'
import { KitToolError } from '../mcp/router/tool-error.ts'

/** The serialization of a parameter (OpenAPI 3.1, Parameter Object). */
export interface ParameterStyle {
  readonly name: string
  readonly style: string
  readonly explode: boolean
  readonly allowReserved?: boolean
}

/** One parameter of a URL or form. Both the name and the value are percent-encoded. */
export type EncodedPair = readonly [name: string, value: string]

type Members = readonly (readonly [string, string])[]

/** Percent-encodes all but unreserved characters (RFC 3986 §2.3). */
function percentEncode(text: string): string {
  // A lone surrogate has no UTF-8 form.
  const encoded = encodeURIComponent(text.replace(/[\uD800-\uDFFF]/gu, '\uFFFD'))
  return encoded.replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** Percent-encodes like `percentEncode`, but keeps reserved characters that cannot end a value. */
function encodeReserved(text: string): string {
  return percentEncode(text).replace(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B|5B|5D)/g, decodeURIComponent)
}

/** Returns a value inside a list or object as a string. Objects and lists become JSON. */
function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function membersOf(value: object): Members {
  return Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => [name, textOf(member)])
}

/** Returns the items of a list, or the names and values of an object in turn. */
function flatOf(value: object): readonly string[] {
  return Array.isArray(value) ? value.map(textOf) : membersOf(value).flat()
}

/** Returns the parts of a value: itself, its items, or its members, as `name=value` if `explode` is set. */
function partsOf(value: unknown, explode: boolean, encode: (text: string) => string): string[] {
  if (!isObject(value)) return [encode(textOf(value))]
  if (Array.isArray(value) || !explode) return flatOf(value).map(encode)
  return membersOf(value).map(([key, text]) => `${encode(key)}=${encode(text)}`)
}

/** Serializes a path parameter: `simple`, `label`, or `matrix`. */
export function encodePath({ name, style, explode }: ParameterStyle, value: unknown): string {
  const parts = partsOf(value, explode, percentEncode)
  if (style === 'label') return `.${parts.join(explode ? '.' : ',')}`
  if (style !== 'matrix') return parts.join(',')
  const key = percentEncode(name)
  if (value === '') return `;${key}`
  if (!explode || !isObject(value)) return `;${key}=${parts.join(',')}`
  return parts.map((part) => (Array.isArray(value) ? `;${key}=${part}` : `;${part}`)).join('')
}

/** Serializes a header: `simple`, not percent-encoded. @throws {KitToolError} if a header cannot contain the value. */
export function encodeHeader({ name, explode }: ParameterStyle, value: unknown): string {
  const text = partsOf(value, explode, (part) => part).join(',')
  if (!/^[\t\x20-\x7E\xA0-\xFF]*$/.test(text)) {
    throw new KitToolError(`'${name}' cannot be sent: it must be one line of Latin text`)
  }
  return text
}

/** The percent-encoded delimiter of each style. */
const DELIMITERS: Readonly<Record<string, string>> = { spaceDelimited: '%20', pipeDelimited: '%7C' }

/**
 * Serializes a parameter of the query, of a cookie, or of a form: `form`, `spaceDelimited`, `pipeDelimited`, or `deepObject`.
 * An empty list or object adds nothing.
 */
export function encodePairs(parameter: ParameterStyle, value: unknown): EncodedPair[] {
  const { name, style, explode, allowReserved } = parameter
  const encode = allowReserved === true ? encodeReserved : percentEncode
  const key = percentEncode(name)
  if (!isObject(value)) return [[key, encode(textOf(value))]]
  if (style === 'deepObject') return deepPairs(name, value, encode)
  if (explode) {
    return Array.isArray(value)
      ? value.map((one) => [key, encode(textOf(one))])
      : membersOf(value).map(([member, text]) => [percentEncode(member), encode(text)])
  }
  const parts = flatOf(value)
  if (parts.length === 0) return []
  // A comma within a part would begin another part.
  const encoded = parts.map((part) => encode(part).replaceAll(',', '%2C'))
  return [[key, encoded.join(DELIMITERS[style] ?? ',')]]
}

/** Serializes as `name[member]=value`, deeper members as `name[member][deeper]`. Lists repeat the name. */
function deepPairs(name: string, value: object, encode: (text: string) => string): EncodedPair[] {
  return Object.entries(value).flatMap(([member, inner]): EncodedPair[] => {
    if (inner === undefined) return []
    const key = `${name}[${member}]`
    if (Array.isArray(inner)) return inner.map((one) => [percentEncode(key), encode(textOf(one))])
    return isObject(inner) ? deepPairs(key, inner, encode) : [[percentEncode(key), encode(textOf(inner))]]
  })
}

export function joinPairs(pairs: readonly EncodedPair[], delimiter: string = '&'): string {
  return pairs.map(([name, value]) => `${name}=${value}`).join(delimiter)
}
