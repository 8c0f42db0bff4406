/** A Redis in the network of the world, with the time of the world. */
import { network, type SimulatedSocket } from './network.ts'
import {
  CommandReader,
  type Data,
  ErrorReply,
  encode,
  OK,
  RedisData,
  type Reply,
  StatusReply,
} from './redis-data.ts'
import { type Machine, START_MS, time } from './time.ts'

interface Connection {
  readonly socket: SimulatedSocket
  readonly channels: Set<string>
  queue: string[][] | undefined
  isAborted: boolean
}

/** A Redis server of the world. */
export class SimulatedRedis {
  readonly data: RedisData = new RedisData(() => Math.floor(START_MS + time.nowMs))
  readonly machine: Machine
  readonly #connections = new Set<Connection>()
  isDown = false
  #held: (() => void)[] | undefined
  /** The number of the next commands that are executed but lose their connection before the reply. */
  loseReplies = 0
  /** The command whose replies are lost, such as `exec`. Empty for all. */
  loses = ''
  /** The number of the next commands that are refused. */
  refuse = 0
  commands = 0

  constructor(machine: Machine, host: string) {
    this.machine = machine
    network.serve(host, () =>
      this.isDown ? undefined : { machine, accept: (socket) => this.#accept(socket) },
    )
  }

  /** Accepts commands but does not reply, until `resume`. */
  hang(): void {
    this.#held ??= []
  }

  resume(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const action of held) action()
  }

  dropConnections(): void {
    for (const { socket } of [...this.#connections]) {
      socket.peer?.reset()
      socket.reset()
    }
    this.#connections.clear()
  }

  stop(): void {
    this.isDown = true
    this.#held = undefined
    this.dropConnections()
  }

  start(data?: Data): void {
    this.isDown = false
    if (data !== undefined) this.data.replace(data)
  }

  #accept(socket: SimulatedSocket): void {
    const connection: Connection = { socket, channels: new Set(), queue: undefined, isAborted: false }
    this.#connections.add(connection)
    const reader = new CommandReader()
    socket.on('data', (chunk: Buffer) => {
      for (const command of reader.read(chunk)) {
        const serve = (): void => this.#serve(connection, command)
        if (this.#held === undefined) serve()
        else this.#held.push(serve)
      }
    })
    socket.on('end', () => socket.end())
    socket.on('error', () => undefined)
    socket.on('close', () => this.#connections.delete(connection))
  }

  #serve(connection: Connection, command: string[]): void {
    const { socket } = connection
    if (socket.destroyed) return
    this.commands++
    const reply = this.#reply(connection, command)
    if (reply === undefined) return
    if (this.loseReplies > 0 && isData(command) && String(command[0]).toLowerCase().startsWith(this.loses)) {
      this.loseReplies--
      socket.peer?.reset()
      socket.reset()
      return
    }
    socket.write(encode(reply))
  }

  #reply(connection: Connection, command: string[]): Reply | undefined {
    const [name = '', ...args] = command
    switch (name.toLowerCase()) {
      case 'hello':
        return new ErrorReply('NOPROTO unsupported protocol version')
      case 'info':
        return 'redis_version:7.4.0\r\nloading:0\r\n'
      case 'client':
      case 'select':
        return OK
      case 'ping':
        return new StatusReply('PONG')
      case 'quit':
        return OK
      case 'subscribe':
        for (const channel of args) {
          connection.channels.add(channel)
          connection.socket.write(encode(['subscribe', channel, connection.channels.size]))
        }
        return undefined
      case 'unsubscribe':
        for (const channel of args) {
          connection.channels.delete(channel)
          connection.socket.write(encode(['unsubscribe', channel, connection.channels.size]))
        }
        return undefined
      case 'publish': {
        const [channel = '', message = ''] = args
        const subscribed = [...this.#connections].filter(({ channels }) => channels.has(channel))
        for (const { socket } of subscribed) socket.write(encode(['message', channel, message]))
        return subscribed.length
      }
      case 'multi':
        connection.queue = []
        connection.isAborted = false
        return OK
      case 'exec': {
        const queue = connection.queue ?? []
        connection.queue = undefined
        if (connection.isAborted)
          return new ErrorReply('EXECABORT Transaction discarded because of previous errors.')
        return queue.map((one) => this.data.run(one))
      }
    }
    if (this.refuse > 0 && isData(command)) {
      this.refuse--
      connection.isAborted = true
      return new ErrorReply("OOM command not allowed when used memory > 'maxmemory'.")
    }
    if (connection.queue !== undefined) {
      connection.queue.push(command)
      return new StatusReply('QUEUED')
    }
    return this.data.run(command)
  }
}

/** Connections are set up with commands of their own, which no fault changes. */
function isData([name = '']: readonly string[]): boolean {
  return !/^(?:hello|info|client|select|ping|quit|subscribe|unsubscribe|multi)$/i.test(name)
}
