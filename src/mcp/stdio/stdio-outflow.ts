import type { Writable } from 'node:stream'
import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { Outflow } from '../wire/exchange.ts'

/** While fewer bytes wait for the client, it can take more. */
const ROOM_BYTES = 64 * 1024

/** While more bytes wait, progress notifications and log messages are dropped. */
const MAX_UNSENT_BYTES = 1024 * 1024

const DROPPABLE: ReadonlySet<string> = new Set(['notifications/progress', 'notifications/message'])

/** Resolves when fewer than `maxBytes` wait in `output`, when everything is written, or when it is closed. */
export async function roomIn(output: Writable, maxBytes: number): Promise<void> {
  if (output.writableLength < maxBytes || output.destroyed) return
  await new Promise<void>((resolve) => {
    const onRoom = (): void => {
      output.off('drain', onRoom).off('close', onRoom)
      resolve()
    }
    output.on('drain', onRoom).on('close', onRoom)
  })
}

/** The output of a connection, for senders that wait until its client has read. */
export class StdioOutflow implements Outflow {
  readonly #output: Writable
  /** Resolves when the client can take more. All callers share the promise. */
  #room: Promise<void> | undefined

  constructor(output: Writable) {
    this.#output = output
  }

  get isFull(): boolean {
    return this.#output.writableLength >= MAX_UNSENT_BYTES
  }

  room(): Promise<void> {
    if (this.#output.writableLength < ROOM_BYTES) return Promise.resolve()
    this.#room ??= roomIn(this.#output, ROOM_BYTES).then(() => {
      this.#room = undefined
    })
    return this.#room
  }

  async notify(
    message: JSONRPCNotification,
    send: (message: JSONRPCNotification) => Promise<void>,
  ): Promise<void> {
    if (this.isFull && DROPPABLE.has(message.method)) return await this.room()
    await send(message)
  }

  settle(): undefined {
    return undefined
  }
}
