import type { OptionChecks } from '../../options/option-checks.ts'
import { isWorkerd } from '../../runtime.ts'
import type { EventsProps } from './event-core.ts'
import { type ResolvedEventOptions, resolveEventOptions } from './event-options.ts'
import { Events } from './events.ts'

/**
 * Returns the events of a server, or undefined if the router declares no event type.
 * @param options undefined if the option is not set
 * @throws {KitMcpConfigError} if an event type can only be delivered to webhooks, which need OAuth.
 */
export function makeEvents(
  {
    options,
    ...props
  }: Omit<EventsProps, 'options'> & { readonly options: ResolvedEventOptions | undefined },
  { unusableOption }: OptionChecks,
): Events | undefined {
  const { table, gate } = props
  if (table.events.size === 0) return undefined
  for (const [name, { delivery }] of table.events)
    if (gate === undefined && delivery.size === 1 && delivery.has('webhook'))
      throw unusableOption(
        `delivery of event '${name}'`,
        `must not be only 'webhook' without OAuth, because a webhook belongs to a user`,
        `Set oauth, or add 'poll' or 'stream'.`,
      )
  const events = new Events({ ...props, options: options ?? resolveEventOptions({}) })
  // Another node may have left deliveries in a store that is shared.
  if (options !== undefined && !isWorkerd()) events.start()
  return events
}
