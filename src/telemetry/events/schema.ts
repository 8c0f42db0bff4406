import type { StandardSchemaV1 } from '@standard-schema/spec'
/** A schema of any library that speaks Standard Schema, such as zod, valibot or arktype. It must validate synchronously. */
export type TelemetryEventSchema = StandardSchemaV1<any, any>

/** Event names and their schemas. */
export type TelemetryEventMap = Readonly<Record<string, TelemetryEventSchema>>
