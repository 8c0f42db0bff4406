import type { TelemetryConfig } from './config.ts'
import type { TelemetryEventSchema } from './events/schema.ts'
import { isValidationOn } from './events/validation.ts'

/** The schema of the attributes of an event, if they are validated. */
export type RegisteredEvent = { readonly schema: TelemetryEventSchema; readonly strict: boolean } | undefined

/** Returns the schema of each full key, or `undefined` if no registry is attached, so that any name is allowed. */
export function registeredEvents(config: TelemetryConfig): ReadonlyMap<string, RegisteredEvent> | undefined {
  if (config.events.length === 0) return undefined
  const registered = new Map<string, RegisteredEvent>()
  for (const { descriptor, validation } of config.events) {
    const validates = isValidationOn(validation.mode)
    for (const name of descriptor.names) {
      const { strict } = validation
      registered.set(
        descriptor.get.key(name),
        validates ? { schema: descriptor.get.schema(name), strict } : undefined,
      )
    }
  }
  return registered
}
