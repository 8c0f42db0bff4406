import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import { also, optional, orEmpty, type ReadBy, type RulesFor } from '../../base/options/option-rules.ts'
import { memoryEventStore } from './memory-event-store.ts'
import type { EventStore } from './store.ts'

const { checkBoolean, invalidKind, members, oneOf, readMembers, unusableOption, wholeNumber } =
  optionChecksOf('createMcpAdapter')

/** The form of the messages to webhooks, where the texts of the protocol and its clients differ. */
export interface McpWebhookOptions {
  /**
   * The header `webhook-id` of an event: its `eventId` (`'event'`), with which clients of today compare it, or an id of the message
   * that stays the same in all attempts (`'message'`). Defaults to `'event'`.
   */
  readonly webhookId?: 'event' | 'message' | undefined
  /** Sends `gap` and `terminated`. Set it to `false` for clients that reject them, such as ChatGPT. Defaults to `true`. */
  readonly controlMessages?: boolean | undefined
  /**
   * Also sends to `http://127.0.0.1:<port>` and `http://[::1]:<port>`, so that you can try webhooks without a public address. Clients
   * that can subscribe then reach the programs of this machine, so it is an error unless `NODE_ENV` is `development`. Defaults to
   * `false`.
   */
  readonly allowLoopback?: boolean | undefined
}

/** The store and the limits of events. */
export interface McpEventOptions {
  /**
   * The place of subscriptions, the log, and deliveries: `memoryEventStore()` or `redisEventStore()`. Defaults to
   * `memoryEventStore()`.
   */
  readonly store?: EventStore | undefined
  /** The maximum number of subscriptions of one owner with a webhook. A further one gets the error -32013. Defaults to 100. */
  readonly maxPerOwner?: number | undefined
  /**
   * The maximum time for which a subscription with a webhook is granted, in milliseconds. A client may ask for less, but at least
   * 60 seconds are granted, or `ttlMs` if it is less. Clients renew their subscriptions in time. Defaults to 3 600 000 ms (one hour).
   */
  readonly ttlMs?: number | undefined
  /** The form of the messages to webhooks. */
  readonly webhooks?: McpWebhookOptions | undefined
  /**
   * The codes of errors: -32011 to -32015, which clients of today know (`'deployed'`), or -32023 to -32027, which the text of
   * SEP-3415 proposes (`'proposed'`). Defaults to `'deployed'`.
   */
  readonly errorCodes?: 'deployed' | 'proposed' | undefined
}

const METHODS = ['subscribe', 'subscribers', 'append', 'read', 'deliver', 'work'] as const

const WEBHOOK_RULES = {
  webhookId: optional(oneOf(['event', 'message'] as const), 'event'),
  controlMessages: optional(checkBoolean, true),
  allowLoopback: also(optional(checkBoolean, false), (option, value) => {
    if (value && process.env.NODE_ENV !== 'development')
      throw unusableOption(option, 'is only for development', 'Remove it, or set NODE_ENV=development.')
  }),
} satisfies RulesFor<McpWebhookOptions>

const RULES = {
  store: checkStore,
  maxPerOwner: optional(wholeNumber(1), 100),
  ttlMs: optional(wholeNumber(1), 3_600_000),
  webhooks: orEmpty(members(`must be an object such as { webhookId: 'event' }`, WEBHOOK_RULES)),
  errorCodes: optional(oneOf(['deployed', 'proposed'] as const), 'deployed'),
} satisfies RulesFor<McpEventOptions>

/** `McpEventOptions`, validated and with defaults. */
export type ResolvedEventOptions = ReadBy<typeof RULES>

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveEventOptions(options: unknown): ResolvedEventOptions {
  if (!isOptionsObject(options))
    throw invalidKind('events', 'must be an object such as { maxPerOwner: 100, ttlMs: 3600000 }', options)
  return readMembers('events', options, RULES)
}

function checkStore(option: string, store: unknown): EventStore {
  if (store === undefined) return memoryEventStore()
  const given = store as Partial<Record<string, unknown>> | null
  if (METHODS.every((method) => typeof given?.[method] === 'function')) return store as EventStore
  throw invalidKind(option, 'must be a store, such as the result of redisEventStore(client)', store)
}
