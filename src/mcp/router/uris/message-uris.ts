import { canonicalUri, hasControlCharacter } from './canonical-uri.ts'

/** The maximum number of resources in one `subscriptions/listen`. */
export const MAX_LISTENED_URIS = 1_024

interface Message {
  readonly method?: unknown
  readonly params?: {
    readonly uri?: unknown
    readonly ref?: { readonly uri?: unknown } | null
    readonly notifications?: { readonly resourceSubscriptions?: unknown } | null
  } | null
}

/** Returns `true` if a message names a resource by a URI that is rejected. Ignores `subscriptions/listen`. */
export function namesRejectedUri(message: unknown): boolean {
  const { method, params } = (message ?? {}) as Message
  switch (method) {
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
    case 'resources/directory/read':
    case 'skills/get':
      return isRejected(params?.uri)
    case 'completion/complete':
      // A reference may be a template, which need not be a URI.
      return typeof params?.ref?.uri === 'string' && hasControlCharacter(params.ref.uri)
    default:
      return false
  }
}

/** Returns a copy of a message that does not name a resource, so that its response is an error (-32602). */
export function withoutUri(message: unknown): unknown {
  const { params } = message as Message
  const { ref, notifications, ...others } = params ?? {}
  return {
    ...(message as object),
    params: {
      ...others,
      ...(others.uri !== undefined && { uri: '' }),
      ...(ref !== undefined && { ref: { ...ref, uri: '' } }),
    },
  }
}

/** Returns `false` for a value that is not a string. The schema of the method rejects it. */
function isRejected(uri: unknown): boolean {
  return typeof uri === 'string' && canonicalUri(uri) === undefined
}

/**
 * Brings the URIs of a `subscriptions/listen` into canonical form.
 * @returns the message with canonical URIs, each once, or the reason why it is rejected. Returns any other message unchanged.
 */
export function withCanonicalSubscriptions(
  message: unknown,
): { readonly message: unknown } | { readonly problem: string } {
  const { method, params } = (message ?? {}) as Message
  const uris = method === 'subscriptions/listen' ? params?.notifications?.resourceSubscriptions : undefined
  if (!Array.isArray(uris)) return { message }
  if (uris.length > MAX_LISTENED_URIS)
    return { problem: `A subscription may name at most ${MAX_LISTENED_URIS} resources` }
  const canonical = new Set<unknown>()
  for (const uri of uris) {
    if (isRejected(uri)) return { problem: 'A URI of resourceSubscriptions is not valid' }
    canonical.add(typeof uri === 'string' ? canonicalUri(uri) : uri)
  }
  const notifications = { ...params?.notifications, resourceSubscriptions: [...canonical] }
  return { message: { ...(message as object), params: { ...params, notifications } } }
}
