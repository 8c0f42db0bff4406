import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from '../oauth/answer.ts'

/** After an answer that did not wait for the body, so much time is left for the client to read it. */
const DISCARD_MS = 5_000

/** Writes a short answer. Headers that others have set stay. */
export function writeAnswer(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body = '' }: Answer,
): void {
  if (res.headersSent || res.destroyed) return
  discardBody(req)
  res.statusCode = status
  for (const name of Object.keys(headers)) appendable(res, name, headers[name] as string)
  if (status !== 204 && status !== 304) res.setHeader('Content-Length', Buffer.byteLength(body))
  res.end(req.method === 'HEAD' ? undefined : body)
}

/** Headers that others may have begun. */
const LISTS: ReadonlySet<string> = new Set(['Vary', 'Access-Control-Expose-Headers'])

function appendable(res: ServerResponse, name: string, value: string): void {
  const before = LISTS.has(name) ? res.getHeader(name) : undefined
  if (before === undefined) res.setHeader(name, value)
  else if (!String(before).includes(value)) res.setHeader(name, `${String(before)}, ${value}`)
}

/** A body that nobody will read is let in and dropped, so that the client gets to read the answer; not for ever. */
function discardBody(req: IncomingMessage): void {
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  if ((length === undefined && coding === undefined) || req.complete || req.readableEnded) return
  req.resume()
  const timer = setTimeout(() => req.destroy(), DISCARD_MS)
  timer.unref()
  req.once('close', () => clearTimeout(timer))
  req.once('end', () => clearTimeout(timer))
}

/** Writes a web-standard response: a short one at once, a stream as it comes, no faster than the client reads. */
export async function writeResponse(
  req: IncomingMessage,
  res: ServerResponse,
  response: Response,
): Promise<void> {
  if (res.headersSent || res.destroyed) {
    await response.body?.cancel().catch(() => undefined)
    return
  }
  res.statusCode = response.status
  for (const [name, value] of response.headers) {
    // Hop-by-hop headers are Node's to set.
    if (name !== 'connection' && name !== 'transfer-encoding') appendable(res, name, value)
  }
  if (response.body === null || req.method === 'HEAD') {
    res.end()
    return
  }
  if (response.headers.get('content-type')?.startsWith('application/json')) {
    // As a string it goes out in one write with the head.
    const body = await response.text()
    res.setHeader('Content-Length', Buffer.byteLength(body))
    res.end(body)
    return
  }
  res.flushHeaders()
  await pump(response.body, res)
}

async function pump(body: ReadableStream<Uint8Array>, res: ServerResponse): Promise<void> {
  const reader = body.getReader()
  let wake: (() => void) | undefined
  const onDrain = (): void => wake?.()
  const onClose = (): void => {
    wake?.()
    reader.cancel().catch(() => undefined)
  }
  res.on('drain', onDrain).once('close', onClose)
  try {
    for (let read = await reader.read(); !read.done && !res.destroyed; read = await reader.read()) {
      if (res.write(read.value)) continue
      await new Promise<void>((resolve) => {
        wake = resolve
        if (res.destroyed) resolve()
      })
    }
    res.end()
  } catch {
    // A stream that breaks off must not look like one that ended.
    res.destroy()
  } finally {
    res.off('drain', onDrain).off('close', onClose)
  }
}
