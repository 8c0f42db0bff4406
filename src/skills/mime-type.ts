/** MIME types by extension. They are those of the official SDK, so that clients see no difference. */
const MIME_TYPES: ReadonlyMap<string, string> = new Map([
  ['bash', 'application/x-sh'],
  ['css', 'text/css'],
  ['csv', 'text/csv'],
  ['gif', 'image/gif'],
  ['html', 'text/html'],
  ['jpeg', 'image/jpeg'],
  ['jpg', 'image/jpeg'],
  ['js', 'text/javascript'],
  ['json', 'application/json'],
  ['markdown', 'text/markdown'],
  ['md', 'text/markdown'],
  ['mjs', 'text/javascript'],
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['py', 'text/x-python'],
  ['sh', 'application/x-sh'],
  ['svg', 'image/svg+xml'],
  ['ts', 'text/typescript'],
  ['txt', 'text/plain'],
  ['webp', 'image/webp'],
  ['xml', 'application/xml'],
  ['yaml', 'application/yaml'],
  ['yml', 'application/yaml'],
])

/** Returns the MIME type of a file by the extension of its name. */
export function mimeTypeOf(name: string): string {
  const extension = name.slice(name.lastIndexOf('.') + 1).toLowerCase()
  return MIME_TYPES.get(extension) ?? 'application/octet-stream'
}
