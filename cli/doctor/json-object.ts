export type JsonObject = Readonly<Record<string, unknown>>

/** Returns a member of a value that may be an object. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as JsonObject)[name]
    : undefined
}

/** Returns a member that is an array of strings, or `undefined` if it is not. */
export function textsOf(document: JsonObject | undefined, member: string): readonly string[] | undefined {
  const value = document?.[member]
  return Array.isArray(value) && value.every((entry): entry is string => typeof entry === 'string')
    ? value
    : undefined
}

/** Returns a URL, or `undefined` if the value is not a string with an absolute URL. */
export function urlOf(value: unknown): URL | undefined {
  return typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
}
