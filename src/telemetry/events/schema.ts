import type { StandardSchemaV1 } from '@standard-schema/spec'

/** A schema of a library that implements Standard Schema, such as zod, valibot, or arktype. It must validate synchronously. */
export type TelemetryEventSchema = StandardSchemaV1<any, any>

/** Schemas by event name. */
export type TelemetryEventMap = Readonly<Record<string, TelemetryEventSchema>>
