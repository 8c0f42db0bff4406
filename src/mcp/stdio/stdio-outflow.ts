import type { Writable } from 'node:stream'
import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { Outflow } from '../wire/exchange.ts'

/** While fewer bytes wait for the client, it can take more. */
const ROOM_BYTES = 64 * 1024

/** While more bytes wait, progress notifications and log messages are dropped. */
const MAX_UNSENT_BYTES = 1024 * 1024

const DROPPABLE: ReadonlySet<string> = new Set(['notifications/progress', 'notifications/message'])

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
    const output = this.#output
    if (output.writableLength < ROOM_BYTES || output.destroyed) return Promise.resolve()
    this.#room ??= new Promise((resolve) => {
      const onRoom = (): void => {
        output.off('drain', onRoom).off('close', onRoom)
        this.#room = undefined
        resolve()
      }
      output.on('drain', onRoom).on('close', onRoom)
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
