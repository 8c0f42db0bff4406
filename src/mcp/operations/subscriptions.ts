/** The maximum number of resources that one stream, or one session, is subscribed to. */
export const MAX_SUBSCRIPTIONS = 1024

/** The maximum length of their URIs together, in characters. */
export const MAX_SUBSCRIBED_LENGTH = 131_072

/** The subscriptions to resources, by owner. */
export interface Subscriptions {
  subscribe(owner: string, uri: string): void
  unsubscribe(owner: string, uri: string): void
}

/** The URIs that one stream, or one session, is subscribed to. URIs beyond the limits are ignored. */
export class SubscribedUris {
  readonly #uris = new Set<string>()
  #length = 0

  add(uri: string): void {
    if (this.#uris.has(uri) || this.#uris.size >= MAX_SUBSCRIPTIONS) return
    if (this.#length + uri.length > MAX_SUBSCRIBED_LENGTH) return
    this.#uris.add(uri)
    this.#length += uri.length
  }

  delete(uri: string): void {
    if (this.#uris.delete(uri)) this.#length -= uri.length
  }

  has(uri: string): boolean {
    return this.#uris.has(uri)
  }
}
