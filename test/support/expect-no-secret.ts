import { inspect } from 'node:util'
import { expect } from 'chai'

const WHOLE = {
  depth: null,
  showHidden: true,
  maxArrayLength: null,
  maxStringLength: null,
  breakLength: Infinity,
}

/** Expects that no value contains one of the secrets: as it is, escaped, percent-encoded, in base64, or in hex. */
export function expectNoSecret(values: unknown, secrets: string | Iterable<string>): void {
  const texts = [
    String(values),
    JSON.stringify(values, (_key, value) => (Buffer.isBuffer(value) ? String(value) : value)),
    inspect(values, { ...WHOLE, getters: true }),
    inspect(values, { ...WHOLE, customInspect: false }),
  ].join('\n')
  for (const [index, secret] of (typeof secrets === 'string' ? [secrets] : [...secrets]).entries()) {
    expect(secret, 'a secret').to.not.equal('')
    for (const form of formsOf(secret))
      expect(texts.includes(form), `secret ${index + 1} was found`).to.equal(false)
  }
}

function formsOf(secret: string): string[] {
  // The characters of base64 that do not depend on neighboring bytes, at each position of the secret in a longer text.
  const encoded = ['', 'x', 'xx'].map((before) =>
    Buffer.from(before + secret)
      .toString('base64url')
      .slice(before.length === 0 ? 0 : before.length + 1, -2),
  )
  const base64 = encoded.flatMap((form) => [form, form.replaceAll('-', '+').replaceAll('_', '/')])
  const forms = [...base64.filter((form) => form.length >= 6), Buffer.from(secret).toString('hex')]
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), ...forms]
}
