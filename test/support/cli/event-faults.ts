import { z } from 'zod'
import type { DoctorReport } from '../../../cli/doctor/doctor.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { type Fault, findingOf } from './doctor-target.ts'

/** The checks of events, in their order. */
const IDS = [
  'events.capability',
  'events.list',
  'events.methods',
  'events.wrong-challenge',
  'events.challenge',
  'events.signature',
  'events.delivery',
  'events.unsubscribe',
] as const

const tool = {
  title: 'A tool',
  description: 'A tool',
  annotations: { readOnlyHint: true },
  input: z.object({}),
} as const

/** A router with two tools. */
export const tools = KitMcpRouter.create()
  .tool('greet', tool, () => 'Hello!')
  .tool('erase', { ...tool, scopes: ['mcp:write'] }, () => 'Gone.')
export const payload = z.object({ id: z.number() })
/** A router with tools, and with event types that differ in their arguments and deliveries. */
export const router = tools
  .event('comment.created', { description: 'A comment', payload, input: z.object({ page: z.string() }) })
  .event('order.paid', { description: 'An order was paid', payload })
  .event('polled', { description: 'A page was changed', payload, delivery: ['poll'] })

/** Changes the results of a method. */
export const result =
  (method: string, change: (result: any) => void): NonNullable<Fault['alter']> =>
  (answer, { message }) => {
    if (message?.method !== method || answer.status !== 200) return
    const body = JSON.parse(answer.body)
    if (body.result === undefined) return
    change(body.result)
    answer.body = JSON.stringify(body)
  }

/** Returns the statuses of the checks `events.*`, in their order. */
export const statusesOf = (report: DoctorReport) => IDS.map((id) => findingOf(report, id)?.status)
