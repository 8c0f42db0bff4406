/**
 * Returns `true` if a secret may begin at an index: the character before is not a letter or digit, or is the end of an escape,
 * such as `%3D`, `\n` as two characters, or `\u0022`.
 */
export function startsWord(text: string, index: number): boolean {
  return /^$|[^A-Za-z0-9]$|%[0-9A-Fa-f]{2}$|\\(?:[nrt]|u[0-9A-Fa-f]{4})$/.test(
    text.slice(Math.max(0, index - 6), index),
  )
}
