import type { AuthorizationStore } from '../../../src/authorization/index.ts'

/** The ways in which a command of a store fails. */
export const INTERRUPTIONS = ['before it is applied', 'after it was applied'] as const

/** A store of which one command can fail, or all. */
export interface InterruptedStore extends AuthorizationStore {
  /** The kinds and commands since the last call of `interrupt`, such as `set RefreshToken`. */
  readonly commands: readonly string[]
  /** The keys and values that were written. */
  readonly written: readonly string[]
  /** Fails every command while it is `true`. */
  isDown: boolean
  /** Fails the command with this number, counted from 0. Without a number, none fails. */
  interrupt(index?: number, way?: (typeof INTERRUPTIONS)[number]): void
}

export function interruptedStore(store: AuthorizationStore): InterruptedStore {
  let commands: string[] = []
  let failing: number | undefined
  let isApplied = false
  const written: string[] = []
  const command =
    (name: keyof AuthorizationStore) =>
    async (...args: [key: string, value?: string, ttlMs?: number]): Promise<any> => {
      const index = commands.push(`${name} ${args[0].slice(0, args[0].indexOf(':'))}`) - 1
      if (interrupted.isDown) throw new Error('the store is down')
      if (args[1] !== undefined) written.push(args[0], args[1])
      const run = store[name] as (...all: unknown[]) => Promise<unknown>
      if (index !== failing) return await run(...args)
      if (isApplied) await run(...args)
      throw new Error('the connection was closed')
    }
  const interrupted: InterruptedStore = {
    written,
    isDown: false,
    get: command('get'),
    set: command('set'),
    add: command('add'),
    take: command('take'),
    delete: command('delete'),
    get commands() {
      return commands
    },
    interrupt(index, way) {
      commands = []
      failing = index
      isApplied = way === 'after it was applied'
    },
  }
  return interrupted
}
