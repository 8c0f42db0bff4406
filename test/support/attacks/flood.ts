import { once } from 'node:events'
import { connect } from 'node:net'

/** Statuses by the number of responses that had them. */
export type StatusCounts = Readonly<Record<string, number>>

const CONNECTIONS = 8
/** The number of requests that are sent together on one connection. */
const BATCH = 50

/**
 * Sends `count` requests over a few connections, many at a time, and counts the statuses of the responses.
 * @param request returns the request as a string with that index. Responses must not contain `HTTP/1.1 ` elsewhere.
 */
export async function flood(
  port: number,
  count: number,
  request: (index: number) => string,
): Promise<StatusCounts> {
  const counts: Record<string, number> = {}
  let next = 0
  const attack = async (): Promise<void> => {
    const socket = connect(port, '127.0.0.1')
    socket.setEncoding('latin1').on('error', () => undefined)
    const closed = once(socket, 'close')
    let missing = 0
    let rest = ''
    let wake = (): void => undefined
    socket.on('data', (text: string) => {
      rest += text
      const statuses = rest.match(/HTTP\/1\.1 \d{3}/g) ?? []
      for (const status of statuses) counts[status.slice(-3)] = (counts[status.slice(-3)] ?? 0) + 1
      missing -= statuses.length
      // A status line can be cut between two chunks.
      rest = rest.slice(-11).match(/HTTP\/1\.1 \d{3}$/) ? '' : rest.slice(-11)
      if (missing <= 0) wake()
    })
    while (next < count && !socket.destroyed) {
      const batch = Array.from({ length: Math.min(BATCH, count - next) }, () => request(next++))
      missing += batch.length
      const answered = new Promise<void>((resolve) => {
        wake = resolve
      })
      socket.write(batch.join(''), 'latin1')
      await Promise.race([answered, closed])
    }
    socket.destroy()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, attack))
  return counts
}
