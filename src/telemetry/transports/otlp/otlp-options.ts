import type { Agent } from 'node:http'
import { quotedName } from '../../../base/options/describe-value.ts'
import { isOptionsObject } from '../../../base/options/option-kit.ts'
import { optional, type ReadBy, type RulesFor } from '../../../base/options/option-rules.ts'
import { builtinModule } from '../../../base/runtime.ts'
import { DEFAULT_MAX_PENDING_BYTES } from '../../delivery/transport.ts'
import { telemetryOptions } from '../../options.ts'
import {
  checkHeaderValues,
  checkRuntime,
  checkUrl,
  type GivenHeaders,
  headersReader,
  type ReadHeaders,
} from '../http/target-options.ts'
import { countFrom, readTransportOptions, timeoutMs } from '../transport-options.ts'
import type { OtlpAgent } from './otlp-connection.ts'
import type { OtlpRecord } from './otlp-record.ts'

const { invalidKind, invalidOption, oneOf, unusableOption } = telemetryOptions

/** The method of an OpenTelemetry logger provider that is used. Both SDK versions implement it. */
export interface OtlpLoggerProvider {
  /** The same as in `LoggerProvider` of `@opentelemetry/api-logs`. */
  getLogger(name: string, version?: string): { emit(record: OtlpRecord): void }
}

/** A value of an attribute of a resource. */
export type OtlpResourceValue = string | number | boolean

/** Attributes of a resource. Those that are `undefined` are left out. */
export type OtlpResourceAttributes = Readonly<
  Record<string, OtlpResourceValue | readonly OtlpResourceValue[] | undefined>
>

interface OtlpDeliveryOptions {
  /**
   * The headers of every request, such as an API key, or a function that returns them, or a promise of them, before each attempt.
   * An attempt fails if the function throws, or takes more than 5 seconds. They override those of `OTEL_EXPORTER_OTLP_HEADERS`,
   * which the OpenTelemetry exporter adds. The exporter ignores `content-type` and `user-agent`, which it sets itself. Defaults to
   * none.
   */
  readonly headers?: GivenHeaders | (() => GivenHeaders | Promise<GivenHeaders>) | undefined
  /**
   * Attributes of the resource. They override those of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`. `withService`,
   * `withEnvironment`, and `withVersion` override them. `service.instance.id` defaults to a random UUID for each process.
   */
  readonly resource?: OtlpResourceAttributes | undefined
  /** The maximum duration of an attempt to send a batch, in milliseconds above 0. Defaults to 10 000 ms. */
  readonly timeout?: number | undefined
  /**
   * The encoding of requests. `json` needs `@opentelemetry/exporter-logs-otlp-http`. `protobuf` needs
   * `@opentelemetry/exporter-logs-otlp-proto`, and is smaller and faster. Defaults to `json`.
   */
  readonly encoding?: 'json' | 'protobuf' | undefined
  /** The compression of request bodies. Defaults to `none`. */
  readonly compression?: 'none' | 'gzip' | undefined
  /** The maximum number of pending events, at least 1. Further events are dropped. Defaults to 131 072. */
  readonly maxPending?: number | undefined
  /** The maximum size of the pending events in memory, in bytes, at least 1. Further events are dropped. Defaults to 67 108 864. */
  readonly maxPendingBytes?: number | undefined
  /**
   * The time for all attempts of a batch, in milliseconds since the first one, at least 0. A pending attempt is not aborted.
   * Defaults to 120 000 ms.
   */
  readonly retryBudgetMs?: number | undefined
  /**
   * The agent that opens connections, such as an `https.Agent` with a client certificate, or a proxy agent; or a function
   * that receives the protocol (`http:` or `https:`) and returns one. It is never destroyed. Defaults to an agent of the
   * transport, which uses the proxy of the environment in versions of Node.js that support `NODE_USE_ENV_PROXY`.
   */
  readonly agent?: Agent | ((protocol: string) => Agent | Promise<Agent>) | undefined
}

/** The options of `OtlpTransportAdapter.create()`: `url`, or `loggerProvider`, or both. */
export type OtlpTransportOptions = OtlpDeliveryOptions &
  (
    | {
        /**
         * The URL of the collector: `http:` or `https:`, without credentials. If the path is empty or `/`, it becomes
         * `/v1/logs`. A query is kept.
         */
        readonly url: string | URL
        readonly loggerProvider?: OtlpLoggerProvider | undefined
      }
    | {
        readonly url?: string | URL | undefined
        /**
         * An existing provider of the application. Records that it receives count as delivered. The application is
         * responsible for the resource, limits, sending, flushing, and shutdown.
         */
        readonly loggerProvider: OtlpLoggerProvider
      }
  )

const ADAPTER = 'OtlpTransportAdapter'

/** The URL of a transport that only uses a `loggerProvider`. */
const NO_URL = ''

const RULES = {
  url: (option: string, value: unknown, { loggerProvider }: Readonly<Record<string, unknown>>) =>
    value === undefined && loggerProvider !== undefined ? NO_URL : logsUrl(checkUrl(option, value)),
  headers: optional<ReadHeaders, ReadHeaders>(headersReader(checkHeaderValues), () => ({})),
  resource: optional<OtlpResourceAttributes, OtlpResourceAttributes>(checkResource, {}),
  timeout: optional(timeoutMs, 10_000),
  encoding: optional(oneOf(['json', 'protobuf']), 'json'),
  compression: optional(oneOf(['none', 'gzip']), 'none'),
  maxPending: optional(countFrom(1), 131_072),
  maxPendingBytes: optional(countFrom(1), DEFAULT_MAX_PENDING_BYTES),
  retryBudgetMs: optional(checkBudget, 120_000),
  agent: optional(checkAgent),
  loggerProvider: optional(checkLoggerProvider),
} satisfies RulesFor<OtlpTransportOptions>

/** Checked options with all defaults. The URL is empty if there is only a `loggerProvider`. */
export type OtlpSettings = ReadBy<typeof RULES>

/**
 * Checks the options of the transport. No message repeats the URL or a header's value.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
 */
export function readOtlpOptions(options: OtlpTransportOptions): OtlpSettings {
  const read = readTransportOptions(`${ADAPTER}.create`, options, RULES, ['url'], {
    endpoint: 'url',
    Endpoint: 'url',
  })
  if (read.url !== NO_URL && typeof read.agent === 'object') checkProtocol(read.agent, read.url)
  return read
}

/** Checks that the agent fits the URL. The protocol of a proxy agent depends on the request. */
function checkProtocol(agent: Agent, url: string): void {
  const { protocol } = new URL(url)
  const own: unknown = Object.getOwnPropertyDescriptor(agent, 'protocol')?.value
  if (typeof own === 'string' && own !== protocol)
    throw unusableOption(
      `${ADAPTER}.create({ agent })`,
      `must be an agent for ${protocol}; received one for ${own}`,
      `Use an Agent of node:${protocol.slice(0, -1)}.`,
    )
}

function checkResource(option: string, value: unknown): OtlpResourceAttributes {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object of attributes', value)
  for (const [key, attribute] of Object.entries(value)) {
    const [first, ...others]: readonly unknown[] = Array.isArray(attribute) ? attribute : [attribute]
    const isValid = ['string', 'number', 'boolean', 'undefined'].includes(typeof first)
    if (key === '' || !isValid || others.some((other) => typeof other !== typeof first))
      throw invalidKind(
        option,
        `must contain a string, a number, a boolean, or an array of one of them for ${quotedName(key)}`,
        attribute,
      )
  }
  return Object.freeze({ ...value })
}

function checkAgent(option: string, value: unknown): OtlpAgent {
  checkRuntime(option, builtinModule('node:http') !== undefined)
  const { addRequest } = (value ?? {}) as { readonly addRequest?: unknown }
  if (typeof value === 'function' || typeof addRequest === 'function') return value as OtlpAgent
  throw invalidKind(option, 'must be an http.Agent or https.Agent, or a function that returns one', value)
}

function checkLoggerProvider(option: string, value: unknown): OtlpLoggerProvider {
  const provider = value as OtlpLoggerProvider | null
  if (typeof provider?.getLogger === 'function') return provider
  throw invalidKind(option, 'must be an object with a getLogger function', value)
}

/** Adds the path of the OTLP specification to the address of a collector without a path. */
function logsUrl(target: string): string {
  const url = new URL(target)
  if (url.pathname === '/') url.pathname = '/v1/logs'
  url.hash = ''
  return url.href
}

/** A budget may be longer than a timer, because it bounds the sum of several waits. */
function checkBudget(option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= Number.MAX_VALUE) return value
  throw invalidOption(option, 'must be a number of milliseconds of at least 0', value)
}
