import { hash, X509Certificate } from 'node:crypto'
import type { OptionChecks } from '../../base/options/option-checks.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { verificationOf } from '../inputs.ts'
import type { VerifyTokenInput } from '../options.ts'

/** Returns the thumbprint of the client's certificate (RFC 8705 §3.1); `undefined` if there is none. Never throws. */
export type CertificateReader = (input: VerifyTokenInput) => string | undefined

/** @throws {KitMcpConfigError} if the option is invalid. */
export function certificateReader(
  { invalidKind }: OptionChecks,
  source: unknown,
): CertificateReader | undefined {
  if (source === undefined) return undefined
  if (source === 'tls') return (input) => thumbprintOf(() => verificationOf(input).request?.peerCertificate)
  if (typeof source !== 'function') {
    throw invalidKind(
      'clientCertificate',
      `must be 'tls' or a function of the request that returns the certificate`,
      source,
    )
  }
  return ({ request }) => thumbprintOf(() => source(request))
}

/** Anything that is not a certificate counts as no certificate. */
function thumbprintOf(read: () => unknown): string | undefined {
  // A promise is not a certificate. Its rejection does not become an unhandled one.
  const value = tryOrUndefined(read)
  if (value === undefined || value === null) return undefined
  return tryOrUndefined(() => {
    const certificate = value instanceof X509Certificate ? value : new X509Certificate(value as Buffer)
    return hash('sha256', certificate.raw, 'base64url')
  })
}

const readers = new WeakMap<object, CertificateReader>()

/** Registers the reader of a verifier, for a cache in front of it. Returns the verifier. */
export function withCertificateReader<Verifier extends object>(
  verifier: Verifier,
  reader: CertificateReader | undefined,
): Verifier {
  if (reader !== undefined) readers.set(verifier, reader)
  return verifier
}

/** Returns the reader of a verifier; `undefined` if it does not read certificates. */
export function certificateReaderOf(verifier: object): CertificateReader | undefined {
  return readers.get(verifier)
}

/** Returns a reader of the certificates that several verifiers read; `undefined` if none of them reads any. */
export function certificateReaderOfAll(verifiers: readonly object[]): CertificateReader | undefined {
  const all = verifiers.flatMap((verifier) => readers.get(verifier) ?? [])
  return all.length === 0 ? undefined : (input) => all.map((read) => read(input) ?? '').join(' ')
}
