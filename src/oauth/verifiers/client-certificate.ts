import { hash, X509Certificate } from 'node:crypto'
import type { OptionChecks } from '../../base/options/option-checks.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { verificationOf } from '../inputs.ts'
import type { VerifierTraits } from './verifier-traits.ts'

/** @throws {KitMcpConfigError} if the option is invalid. */
export function certificateReader(
  { invalidKind }: OptionChecks,
  source: unknown,
): VerifierTraits['readCertificate'] {
  if (source === undefined) return undefined
  if (source === 'tls') return (input) => thumbprintOf(() => verificationOf(input).request?.peerCertificate)
  const expected = `must be 'tls' or a function of the request that returns the certificate`
  if (typeof source !== 'function') throw invalidKind('clientCertificate', expected, source)
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
