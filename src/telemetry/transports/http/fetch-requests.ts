import { utf8Length } from '../../../runtime.ts'
import { reserveKeepalive } from './page.ts'
import { type Post, type PostResult, readText, resultOf } from './post.ts'
import type { FetchDispatcher } from './target-options.ts'
import { untracedDispatcher } from './untraced-dispatcher.ts'

/**
 * Posts with `fetch`. In a page, the request may outlive the page if it is small enough. When `released` aborts, so does the
 * request.
 */
export async function postWithFetch(
  url: URL,
  dispatcher: FetchDispatcher | undefined,
  { headers, body, signal, released }: Post,
): Promise<PostResult> {
  const aborting = new AbortController()
  const abort = (): void => aborting.abort()
  for (const one of [signal, released]) {
    if (one.aborted) abort()
    else one.addEventListener('abort', abort, { once: true })
  }
  const reserved = reserveKeepalive(() => utf8Length(body))
  try {
    const options = {
      method: 'POST',
      ...{ headers, body, signal: aborting.signal, redirect: 'manual' },
      ...(reserved !== undefined && { keepalive: true }),
      ...(dispatcher !== undefined && {
        dispatcher: untracedDispatcher(dispatcher, (name) => headers.has(name)),
      }),
    }
    const response = await fetch(url, options as RequestInit)
    const header = (name: string): string | undefined => response.headers.get(name) ?? undefined
    const text = response.body === null ? '' : await readText(chunksOf(response.body))
    // Browsers hide the status of a redirect.
    return resultOf(response.type === 'opaqueredirect' ? 302 : response.status, header, text)
  } finally {
    reserved?.()
    signal.removeEventListener('abort', abort)
    released.removeEventListener('abort', abort)
  }
}

/** Reads a stream. Some browsers cannot iterate over one. */
async function* chunksOf(body: Pick<ReadableStream<Uint8Array>, 'getReader'>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    // The status of the response is known. It does not matter whether the rest of the stream can be cancelled.
    reader.cancel().catch(() => {})
  }
}
