import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

/** One item of an envelope: an event, a session, a client report, … */
export interface SentryItem {
  readonly type: string
  readonly payload: any
}

/** An error tracker on loopback that parses the envelopes of Sentry's SDKs. */
export interface SentryReceiver {
  /** The DSN for the initialization of an SDK. */
  readonly dsn: string
  readonly items: readonly SentryItem[]
  /** Returns the payloads of the items of type `event`. */
  events(): any[]
  close(): Promise<void>
}

/** @param answers If `false`, the server leaves requests without a response. */
export async function startSentryReceiver(answers = true): Promise<SentryReceiver> {
  const items: SentryItem[] = []
  const server = createServer((request, response) => {
    if (!answers) return
    read(request).then(
      (read) => {
        items.push(...read)
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      },
      (error) => response.writeHead(400).end(String(error)),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    dsn: `http://public@127.0.0.1:${(server.address() as AddressInfo).port}/1`,
    items,
    events: () => items.filter(({ type }) => type === 'event').map(({ payload }) => payload),
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

async function read(request: IncomingMessage): Promise<SentryItem[]> {
  if (request.method !== 'POST' || !request.url?.startsWith('/api/1/envelope/'))
    throw new Error('not an envelope')
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const raw = Buffer.concat(chunks)
  const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
  // An envelope header, then a header and a payload for each item, one line each.
  const [, ...lines] = body.toString('utf8').trimEnd().split('\n')
  return lines.flatMap((line, index) =>
    index % 2 === 0 ? [{ type: JSON.parse(line).type, payload: JSON.parse(lines[index + 1] ?? '') }] : [],
  )
}
