import type { Agent } from 'node:http'
import { isOptionsObject } from '../../../options/option-kit.ts'
import { builtinModule, isNode } from '../../../runtime.ts'
import { DEFAULT_MAX_PENDING_BYTES } from '../../delivery/transport.ts'
import { telemetryOptions } from '../../options.ts'
import { type HttpProxy, readEnvProxy } from '../http/env-proxy.ts'
import {
  checkConnection,
  checkHeaderValues,
  checkRuntime,
  checkUrl,
  isAgent,
  readTargetOptions,
} from '../http/target-options.ts'
import type { OtlpAgent } from './otlp-connection.ts'
import type { OtlpRecord } from './otlp-record.ts'

const { checkMs, checkOneOf, checkWholeNumber, invalidKind, invalidOption } = telemetryOptions

/** The method of an OpenTelemetry logger provider that is used. Both SDK versions implement it. */
export interface OtlpLoggerProvider {
  /** The same as in `LoggerProvider` of `@opentelemetry/api-logs`. */
  getLogger(name: string, version?: string): { emit(record: OtlpRecord): void }
}

interface OtlpDeliveryOptions {
  /**
   * The headers of every request, such as an API key. They override those of `OTEL_EXPORTER_OTLP_HEADERS`, which the
   * OpenTelemetry exporter adds. The exporter ignores `content-type` and `user-agent`, which it sets itself. Defaults to none.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined
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
   * How long a batch is retried, in milliseconds since its first attempt, at least 0. A pending attempt is not aborted.
   * Defaults to 120 000 ms.
   */
  readonly retryBudgetMs?: number | undefined
  /**
   * The agent that opens connections, such as an `https.Agent` with a client certificate, or a proxy agent; or a function
   * that receives the protocol (`http:` or `https:`) and returns one. It is never destroyed. Defaults to an agent of the
   * transport, which uses the proxy that `HTTP_PROXY`, `HTTPS_PROXY`, and `NO_PROXY` name if `NODE_USE_ENV_PROXY` is
   * `1`.
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
        readonly url: string
        readonly loggerProvider?: OtlpLoggerProvider | undefined
      }
    | {
        readonly url?: string | undefined
        /**
         * An existing provider of the application. Records that it receives count as delivered. The application is
         * responsible for the resource, limits, sending, flushing, and shutdown.
         */
        readonly loggerProvider: OtlpLoggerProvider
      }
  )

type AnyOtlpOptions = OtlpDeliveryOptions & {
  readonly [Member in 'url' | 'loggerProvider']?: OtlpSettings[Member] | undefined
}

/** Checked options with all defaults. */
export interface OtlpSettings {
  /** The URL that receives batches, including the path. Empty if there is only a `loggerProvider`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeout: number
  readonly encoding: 'json' | 'protobuf'
  readonly compression: 'none' | 'gzip'
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly retryBudgetMs: number
  readonly agent: OtlpAgent | undefined
  /** The proxy of the environment, unless the application sets an agent. */
  readonly proxy: HttpProxy | undefined
  readonly loggerProvider: OtlpLoggerProvider | undefined
}

const ADAPTER = 'OtlpTransportAdapter'

/** The URL of a transport that only uses a `loggerProvider`. */
const NO_URL = ''

/**
 * Checks the options of the transport. No message repeats the URL or a header's value.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
 */
export function readOtlpOptions(options: OtlpTransportOptions): OtlpSettings {
  const required = isOptionsObject(options) && options.loggerProvider !== undefined ? [] : (['url'] as const)
  const {
    url: target,
    headers = {},
    timeout = 10_000,
    encoding = 'json',
    compression = 'none',
    maxPending = 131_072,
    maxPendingBytes = DEFAULT_MAX_PENDING_BYTES,
    retryBudgetMs = 120_000,
    agent,
    loggerProvider,
  } = readTargetOptions<AnyOtlpOptions>(
    ADAPTER,
    options,
    required,
    {
      url: checkUrl,
      headers: checkHeaderValues,
      timeout: (option, value) => checkMs(option, value, 'more than 0'),
      encoding: (option, value) => checkOneOf(option, value, ['json', 'protobuf']),
      compression: (option, value) => checkOneOf(option, value, ['none', 'gzip']),
      maxPending: (option, value) => checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER),
      maxPendingBytes: (option, value) => checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER),
      retryBudgetMs: checkBudget,
      agent: (option, value) => {
        checkRuntime(option, builtinModule('node:http') !== undefined)
        if (typeof value !== 'function' && !isAgent(value))
          throw invalidKind(
            option,
            'must be an http.Agent or https.Agent, or a function that returns one',
            value,
          )
      },
      loggerProvider: (option, value) => {
        if (typeof (value as Partial<OtlpLoggerProvider> | null)?.getLogger !== 'function')
          throw invalidKind(option, 'must be an object with a getLogger function', value)
      },
    },
    { endpoint: 'url', Endpoint: 'url' },
  )
  const url = target === undefined ? NO_URL : logsUrl(target)
  if (url !== NO_URL && typeof agent === 'object') checkConnection(ADAPTER, { agent }, url)
  return {
    url,
    headers: Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined)),
    timeout,
    encoding,
    compression,
    maxPending,
    maxPendingBytes,
    retryBudgetMs,
    agent,
    proxy: url === NO_URL || agent !== undefined || !isNode() ? undefined : readEnvProxy(new URL(url)),
    loggerProvider,
  }
}

/** Adds the path of the OTLP specification to the address of a collector without a path. */
function logsUrl(target: string): string {
  const url = new URL(target)
  if (url.pathname === '/') url.pathname = '/v1/logs'
  url.hash = ''
  return url.href
}

/** A budget may be longer than a timer, because it bounds the sum of several waits. */
function checkBudget(option: string, value: unknown): void {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_VALUE))
    throw invalidOption(option, 'must be a number of milliseconds of at least 0', value)
}
