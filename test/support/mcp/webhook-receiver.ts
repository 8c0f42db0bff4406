import { createHmac, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { SafeFetchSettings } from '../../../src/http/safe-fetch.ts'
import { selfSigned } from '../self-signed.ts'
import { until } from '../until.ts'

const { key, cert } = selfSigned()

/** Access to receivers on loopback. */
export const LOOPBACK: SafeFetchSettings = { ca: cert, isAllowed: () => true }

export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** A message that a receiver has accepted or refused. */
export interface ReceivedMessage {
  readonly headers: Readonly<Record<string, string>>
  readonly body: any
  readonly text: string
}

/** A receiver of webhooks on loopback, which answers challenges. */
export interface WebhookReceiver {
  readonly url: string
  /** The messages other than challenges, in the order of their arrival. */
  readonly messages: readonly ReceivedMessage[]
  readonly challenges: readonly ReceivedMessage[]
  /** Sets the status of further responses. 204 at first. */
  status: number
  /** The answer to a challenge. By default, the challenge itself. */
  echo: (challenge: string) => string
  /** Answers no message until the returned function is called. */
  hold(): () => void
  /** Resolves when there are `count` messages. */
  received(count: number): Promise<readonly ReceivedMessage[]>
}

const open = new Set<Server>()

/** Serves until the test ends. */
export async function receiveWebhooks(path = '/hook'): Promise<WebhookReceiver> {
  const messages: ReceivedMessage[] = []
  const challenges: ReceivedMessage[] = []
  const server = createServer({ key, cert }, (req, res) => void receive(req, res))
  open.add(server)
  let held: Promise<void> | undefined
  await once(server.listen(0, '127.0.0.1'), 'listening')

  async function receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const message = { headers: req.headers as Record<string, string>, text, body: JSON.parse(text) }
    if (message.body.type === 'verification') {
      challenges.push(message)
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ challenge: receiver.echo(message.body.challenge) }))
      return
    }
    messages.push(message)
    await held
    res.statusCode = receiver.status
    res.end()
  }

  const receiver: WebhookReceiver = {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    messages,
    challenges,
    status: 204,
    echo: (challenge) => challenge,
    hold() {
      const { promise, resolve } = signal()
      held = promise
      return resolve
    },
    async received(count) {
      await until(() => messages.length >= count, 5)
      return messages
    },
  }
  return receiver
}

function signal(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** Returns the secrets of `secrets` that have signed a message (Standard Webhooks). */
export function signersOf({ headers, text }: ReceivedMessage, secrets: readonly string[]): string[] {
  const signatures = headers['webhook-signature']?.split(' ')
  return secrets.filter((secret) => {
    const hmac = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64'))
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`
    return signatures?.includes(`v1,${hmac.update(signed).digest('base64')}`)
  })
}

afterEach(async () => {
  for (const server of open) {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  open.clear()
})
