import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A response with its header lines in the order of their arrival. */
export interface RawResponse {
  readonly status: number
  readonly lines: readonly (readonly [name: string, value: string])[]
  readonly body: string
  /** Returns a header by its lower-case name. Several values are joined by a line feed, so that they differ from one value. */
  header(name: string): string | undefined
}

/** A connection on which requests are written byte by byte, for headers that HTTP clients cannot send. */
export class RawConnection {
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  #wake: () => void = () => undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    socket.on('close', () => this.#wake())
    // After an error, the response never arrives.
    socket.on('error', () => undefined)
  }

  static async open(port: number): Promise<RawConnection> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return new RawConnection(socket)
  }

  /** Sends a request and reads its response. Each character is one byte. */
  async send(text: string): Promise<RawResponse> {
    this.#socket.write(Buffer.from(text, 'latin1'))
    return await this.#read(text.startsWith('HEAD '))
  }

  /** Sends several requests in one write (RFC 9112 §9.3.2) and reads their responses. */
  async sendTogether(texts: readonly string[]): Promise<RawResponse[]> {
    this.#socket.write(Buffer.from(texts.join(''), 'latin1'))
    const responses: RawResponse[] = []
    for (const text of texts) responses.push(await this.#read(text.startsWith('HEAD ')))
    return responses
  }

  /** The received bytes that do not belong to a response. */
  get rest(): string {
    return this.#received.toString('latin1')
  }

  close(): void {
    this.#socket.destroy()
  }

  async #read(bodiless: boolean): Promise<RawResponse> {
    const end = await this.#until(() => this.#received.indexOf('\r\n\r\n'))
    const [statusLine = '', ...rest] = this.#take(end + 4)
      .toString('latin1')
      .trimEnd()
      .split('\r\n')
    const lines = rest.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 1).trim()] as const
    })
    const header = (name: string): string | undefined => {
      const values = lines.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value)
      return values.length === 0 ? undefined : values.join('\n')
    }
    const length = bodiless ? 0 : Number(header('content-length') ?? 0)
    await this.#until(() => this.#received.length - length)
    return {
      status: Number(statusLine.split(' ')[1]),
      lines,
      body: this.#take(length).toString('utf8'),
      header,
    }
  }

  /** Returns the result of `measure` as soon as it is not negative. */
  async #until(measure: () => number): Promise<number> {
    for (let measured = measure(); ; measured = measure()) {
      if (measured >= 0) return measured
      if (this.#socket.destroyed)
        throw new Error('the connection was closed before the response was complete')
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  #take(length: number): Buffer {
    const taken = this.#received.subarray(0, length)
    this.#received = this.#received.subarray(length)
    return taken
  }
}

/** Sends one request on a new connection. `headers` are whole lines. */
export async function rawRequest(
  port: number,
  { method = 'GET', target = '/mcp', headers = [] as readonly string[], body = '', version = '1.1' } = {},
): Promise<RawResponse> {
  const connection = await RawConnection.open(port)
  try {
    const lines = [`${method} ${target} HTTP/${version}`, ...headers, '', body]
    return await connection.send(lines.join('\r\n'))
  } finally {
    connection.close()
  }
}
