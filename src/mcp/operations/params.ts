import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { cutText } from '../../base/cut-text.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'

/** The maximum length of a URI in an error message. */
const MAX_REPEATED = 200

/**
 * Returns the canonical form of a URI that a client has sent.
 * @throws {ProtocolError} -32602 if the string is not an absolute URI or contains a control character.
 */
export function requestedUri(uri: string): string {
  const canonical = canonicalUri(uri)
  if (canonical !== undefined) return canonical
  throw invalidParams('The resource URI is not valid', { uri: repeatedUri(uri), reason: 'invalid_uri' })
}

/** Returns the error -32602. */
export function invalidParams(message: string, data?: object): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, data)
}

/** Returns a URI for an error message. */
export function repeatedUri(uri: string): string {
  return cutText(uri, MAX_REPEATED, '…')
}
