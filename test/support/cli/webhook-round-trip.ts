import { expectNoSecret } from '../expect-no-secret.ts'
import { freePort } from '../free-port.ts'
import { LOOPBACK, type ReceivedMessage, type ReceiverResponse, startReceiver } from '../mcp/webhooks.ts'
import { type DoctorTarget, type Fault, look, startTarget } from './doctor-target.ts'
import { router } from './event-faults.ts'

/** The way of a message from the server to doctor, which can change it. */
export type Tunnel = (
  message: ReceivedMessage,
  forward: (changed?: Partial<ReceivedMessage>) => Promise<ReceiverResponse>,
  secret: string,
) => ReceiverResponse | Promise<ReceiverResponse>

export interface RoundTrip {
  readonly fault?: Fault
  readonly tunnel?: Tunnel
  readonly event?: string
  /** Does not emit an event. */
  readonly silent?: true
}

/** Examines a server whose webhooks reach doctor over https. Emits an event when doctor waits for one. */
export async function roundTrip({
  fault = {},
  tunnel = (_, forward) => forward(),
  event,
  silent,
}: RoundTrip = {}) {
  const secrets: string[] = []
  const target = await startTarget({
    router,
    network: LOOPBACK,
    ...fault,
    instead: (request) => {
      const secret = request.message?.params?.delivery?.secret
      if (secret !== undefined) secrets.push(secret)
      return fault.instead?.(request)
    },
  })
  const port = await freePort()
  const receiver = await startReceiver()
  receiver.respond = (message) =>
    tunnel(
      message,
      async (changed = {}) => {
        const { path, headers, text } = { ...message, ...changed }
        const kept = Object.entries(headers).filter(([name]) =>
          /^(?:webhook-|x-mcp-|content-type)/.test(name),
        )
        const init = { method: 'POST', headers: Object.fromEntries(kept), body: text }
        const response = await fetch(`http://127.0.0.1:${port}${path}`, init)
        return { status: response.status, body: await response.text() }
      },
      secrets.at(-1) as string,
    )
  const printed: string[] = []
  const report = await look(target.url, {
    token: target.token,
    webhook: { url: new URL(receiver.url), port, event, waitMs: silent ? 50 : 5_000 },
    print(text) {
      printed.push(text)
      if (!silent) void target.adapter.events.emit('order.paid', { id: 7 })
    },
  })
  const texts = printed.join('\n') + JSON.stringify(report)
  expectNoSecret(texts, [target.token, ...secrets, ...secrets.map((secret) => secret.slice(6))])
  const { subscribed, unsubscribed, terminated } = target.adapter.events.stats()
  await target.adapter.events.close()
  return { report, printed, target: target as DoctorTarget, open: subscribed - unsubscribed - terminated }
}
