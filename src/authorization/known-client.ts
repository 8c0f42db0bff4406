import type { ResolvedFacadeOptions } from './options.ts'

/** How the client of a request is known. */
export type ClientKind = 'static' | 'registered' | 'metadata-document'

/** A client and the redirect URI of a request. */
export interface KnownClient {
  readonly id: string
  readonly name: string
  readonly kind: ClientKind
  readonly redirectUri: string
}

/** Returns how a client is known. */
export function kindOf(
  client: { readonly clientId: string },
  { clients }: Pick<ResolvedFacadeOptions, 'clients'>,
): ClientKind {
  if (clients.static.some(({ clientId }) => clientId === client.clientId)) return 'static'
  const { clientIdMetadataDocument } = client as { clientIdMetadataDocument?: unknown }
  return clientIdMetadataDocument === true ? 'metadata-document' : 'registered'
}
