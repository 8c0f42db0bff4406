/** The maximum length of the returned text, in UTF-16 units. The rest of a longer one is left out. */
const MAX_LENGTH = 8_192

/** The number of UTF-16 units that are searched. The head of a secret that begins in the returned half ends here in every form. */
const MAX_SEARCHED = 2 * MAX_LENGTH

/** The length of the head of a secret that is searched for in a longer text, which may contain only its beginning. */
const HEAD_LENGTH = 64

/** The maximum number of times that a text is percent-decoded. */
const MAX_ROUNDS = 3

const REPLACEMENT = '[secret]'

/** A character that stands for no byte. It separates parts that must not be read together. */
const GAP = '\u0100'

/**
 * Replaces secrets in a text that another server wrote, because it may repeat what it received. Finds them as they are,
 * percent-encoded in any way (also in part, and several times), and in Base64 and base64url with and without padding, also as
 * a part of credentials (RFC 7617), whose parts may be percent-encoded. Of an encoded secret, the word that contains it is
 * replaced, or else the whole text.
 */
export function eraseSecrets(text: string, secrets: readonly string[]): string {
  const read = text.slice(0, MAX_SEARCHED)
  const isCut = read.length < text.length
  const given = secrets.filter((secret) => secret !== '').toSorted((one, other) => other.length - one.length)
  const needles = given.flatMap((secret) => {
    const bytes = bytesOf(isCut ? secret.slice(0, HEAD_LENGTH) : secret)
    return [bytes, bytes.replaceAll(' ', '+')]
  })
  const hasSecret = (part: string): boolean =>
    viewsOf(part).some((view) => needles.some((needle) => view.includes(needle)))
  if (!hasSecret(read)) return read.slice(0, MAX_LENGTH)
  // The end may contain the beginning of a secret.
  if (isCut) return REPLACEMENT
  const plain = given.reduce((erased, secret) => erased.replaceAll(secret, REPLACEMENT), read)
  const words = plain.split(/(\s+)/).map((word) => (hasSecret(word) ? REPLACEMENT : word))
  const erased = words.join('')
  return hasSecret(erased) ? REPLACEMENT : erased.slice(0, MAX_LENGTH)
}

/** Returns the bytes of a text in UTF-8 as Latin-1, and what they encode. */
function viewsOf(text: string): string[] {
  const plain = percentDecodings(bytesOf(text))
  return [...plain, ...plain.flatMap(base64Decodings).flatMap(percentDecodings)]
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function percentDecodings(bytes: string): string[] {
  const views = [bytes]
  for (let round = 0; round < MAX_ROUNDS; round++)
    views.push(
      (views.at(-1) as string).replace(/%([\da-f]{2})/gi, (_encoded, byte: string) =>
        String.fromCharCode(Number.parseInt(byte, 16)),
      ),
    )
  return [...new Set(views)]
}

/** Decodes each run of characters of Base64 from each of its first four characters, because others may precede the secret. */
function base64Decodings(bytes: string): string[] {
  const parts = bytes.match(/[\w+/-]+/g) ?? []
  return [0, 1, 2, 3].map((offset) =>
    parts.map((part) => Buffer.from(part.slice(offset), 'base64').toString('latin1')).join(GAP),
  )
}
