/** The maximum length of the returned text, in UTF-16 units. The rest of a longer one is left out. */
const MAX_LENGTH = 8_192

/** The number of UTF-16 units that are searched. The head of a secret that begins in the returned half ends here in every form. */
const MAX_SEARCHED = 2 * MAX_LENGTH

/** The bytes of a secret that are searched for in a longer text, which may contain only the beginning of the secret. */
const HEAD_BYTES = 64

/** The maximum number of times that a text is percent-decoded. */
const MAX_ROUNDS = 3

const REPLACEMENT = '[secret]'

/** A character that stands for no byte. It separates parts that must not be read together. */
const GAP = '\u0100'

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** The bytes of a text, or what they encode, as Latin-1. Each has the range of the text that it comes from. */
interface View {
  bytes: string
  readonly starts: number[]
  readonly ends: number[]
}

/**
 * Replaces secrets in a text that another server wrote, because it may repeat what it received. Finds them as they are,
 * percent-encoded in any way (also in part, and several times), and in Base64 and base64url with and without padding, also as
 * a part of credentials (RFC 7617), whose parts may be percent-encoded.
 */
export function eraseSecrets(text: string, secrets: readonly string[]): string {
  const read = text.slice(0, MAX_SEARCHED)
  const plain = percentDecodings(viewOf(read))
  const views = [...plain, ...plain.flatMap((view) => base64Decodings(view)).flatMap(percentDecodings)]
  const hidden = new Uint8Array(read.length)
  const isCut = read.length < text.length
  const forms = secrets.filter((secret) => secret !== '').flatMap(formsOf)
  for (const needle of new Set(isCut ? forms.map((form) => form.slice(0, HEAD_BYTES)) : forms))
    for (const { bytes, starts, ends } of views)
      for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, at + 1))
        hidden.fill(1, starts[at], ends[at + needle.length - 1])
  if (!hidden.includes(1)) return read.slice(0, MAX_LENGTH)
  // The end may contain the beginning of a secret.
  if (isCut) return REPLACEMENT
  let erased = ''
  for (let at = 0; at < read.length; ) {
    const from = hidden.indexOf(1, at)
    erased += from === -1 ? read.slice(at) : read.slice(at, from) + REPLACEMENT
    const next = from === -1 ? -1 : hidden.indexOf(0, from)
    at = next === -1 ? read.length : next
  }
  return erased.slice(0, MAX_LENGTH)
}

/** Returns the bytes of a secret, and the same with spaces as in a form. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret).toString('latin1')
  return [bytes, bytes.replaceAll(' ', '+')]
}

function viewOf(text: string): View {
  const view: View = { bytes: '', starts: [], ends: [] }
  let start = 0
  for (const character of text) {
    const end = start + character.length
    for (const byte of Buffer.from(character).toString('latin1')) append(view, byte, start, end)
    start = end
  }
  return view
}

function append(view: View, byte: string, start: number | undefined, end: number | undefined): void {
  view.bytes += byte
  view.starts.push(start as number)
  view.ends.push(end as number)
}

/** Returns a view, and what it is when it is percent-decoded once, twice, and so on. */
function percentDecodings(view: View): View[] {
  const views = [view]
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const { bytes, starts, ends } = views.at(-1) as View
    const decoded: View = { bytes: '', starts: [], ends: [] }
    let copied = 0
    const copyTo = (end: number): void => {
      decoded.bytes += bytes.slice(copied, end)
      decoded.starts.push(...starts.slice(copied, end))
      decoded.ends.push(...ends.slice(copied, end))
    }
    for (const { 0: encoded, index } of bytes.matchAll(/%[\da-f]{2}/gi)) {
      copyTo(index)
      copied = index + encoded.length
      const byte = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
      append(decoded, byte, starts[index], ends[copied - 1])
    }
    if (copied === 0) break
    copyTo(bytes.length)
    views.push(decoded)
  }
  return views
}

/** Returns what the parts of a view in the alphabet of Base64 encode, for each of the places at which it may begin. */
function base64Decodings({ bytes, starts, ends }: View): View[] {
  const views: View[] = [0, 1, 2, 3].map(() => ({ bytes: '', starts: [], ends: [] }))
  for (const { 0: run, index } of bytes
    .replaceAll('-', '+')
    .replaceAll('_', '/')
    .matchAll(/[A-Za-z\d+/]+/g))
    for (const [offset, view] of views.entries()) {
      append(view, GAP, index, index)
      for (let at = offset; at + 1 < run.length; at++) {
        // Each character but the first of four completes a byte.
        if ((at - offset) % 4 === 3) continue
        const shift = 2 * ((at - offset) % 4)
        const [high, low] = [BASE64.indexOf(run[at] as string), BASE64.indexOf(run[at + 1] as string)]
        const byte = ((high << (2 + shift)) | (low >> (4 - shift))) & 255
        append(view, String.fromCharCode(byte), starts[index + at], ends[index + at + 1])
      }
    }
  return views
}
