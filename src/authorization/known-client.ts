import type { ClientKind } from './client-options.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import { plainName } from './pages.ts'
import { redirectHost } from './redirect-uris.ts'

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

/** Returns the id, the name, and the host of a client, as lists of grants show them. */
export function describeClient({ id, name, kind, redirectUri }: KnownClient): {
  readonly id: string
  readonly name: string
  readonly host: string
} {
  const host = kind === 'metadata-document' ? new URL(id).host : redirectHost(redirectUri)
  return { id, name: plainName(name) || id, host }
}

/** Returns the host of the metadata document of a client, or of its first redirect URI. */
export function hostOf(
  client: { readonly clientId: string; readonly redirectUris?: readonly string[] | undefined },
  kind: ClientKind,
): string {
  if (kind === 'metadata-document') return new URL(client.clientId).host
  const [uri] = client.redirectUris ?? []
  return uri === undefined ? '' : redirectHost(uri)
}
