import type { NodeRequest } from '../http/node-middleware.ts'
import type { Context } from './context.ts'

/** The maximum size of a submitted form. */
const MAX_FORM_BYTES = 16_384

/** Returns the form of a request, or `undefined` if it is too large. */
export async function readForm(req: NodeRequest): Promise<URLSearchParams | undefined> {
  // A body parser may have read the body.
  if (typeof req.body === 'object' && req.body !== null && !req.readable) {
    const fields = Object.entries(req.body)
    return new URLSearchParams(
      fields.filter((field): field is [string, string] => typeof field[1] === 'string'),
    )
  }
  if (Number(req.headers['content-length']) > MAX_FORM_BYTES) return undefined
  let size = 0
  const chunks: Buffer[] = []
  for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_FORM_BYTES) return undefined
    chunks.push(chunk)
  }
  return new URLSearchParams(Buffer.concat(chunks).toString('utf8'))
}

/** Returns `false` if another site has sent a form. */
export function isOwnForm(ctx: Context, url: string): boolean {
  return (
    ['', new URL(url).origin].includes(ctx.get('origin')) &&
    ['', 'same-origin'].includes(ctx.get('sec-fetch-site'))
  )
}
