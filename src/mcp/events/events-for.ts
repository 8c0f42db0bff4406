import { optionChecksOf } from '../../base/options/option-checks.ts'
import type { McpEvents } from '../mcp-adapter.ts'
import type { EmitOptions } from './event-emitter.ts'
import { newLedger } from './event-ledger.ts'
import type { Events } from './events.ts'

/** Returns the part of events that the application uses. */
export function eventsFor(events: Events | undefined): McpEvents {
  return Object.freeze<McpEvents>({
    async emit(name: string, data: unknown, options?: EmitOptions) {
      if (events !== undefined) return await events.emit(name, data, options)
      const { unusableOption } = optionChecksOf('emit')
      throw unusableOption('emit', 'needs an event type', 'Declare it with router.event().')
    },
    stats: () => events?.stats() ?? newLedger(),
    close: async (options) => await events?.close(options),
  })
}
