import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import { shortened } from '../wire/shortened.ts'

/** Characters of a URI that an error repeats. */
const MAX_REPEATED = 200

/**
 * Returns the canonical form of a URI that a client has sent.
 * @throws {ProtocolError} -32602 for a string that is not an absolute URI or that contains a control character.
 */
export function requestedUri(uri: string): string {
  const canonical = canonicalUri(uri)
  if (canonical !== undefined) return canonical
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'The resource URI is not valid', {
    uri: repeatedUri(uri),
    reason: 'invalid_uri',
  })
}

/** A URI as an error may repeat it. */
export function repeatedUri(uri: string): string {
  return shortened(uri, MAX_REPEATED)
}
