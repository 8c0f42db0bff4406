/** Keeps the characters that an error description may have (RFC 6749 §4.1.2.1). */
export function errorText(description: string): string {
  return description.slice(0, 300).replace(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, ' ')
}
