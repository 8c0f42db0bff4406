import type { Agent } from 'node:http'
import { isOptionsObject } from '../../../options/option-kit.ts'
import { telemetryOptions } from '../../options.ts'
import { type HttpProxy, readEnvProxy } from '../http/env-proxy.ts'
import {
  checkConnection,
  checkHeaderValues,
  checkUrl,
  isAgent,
  readTargetOptions,
} from '../http/target-options.ts'
import type { OtlpAgent } from './otlp-connection.ts'
import type { OtlpRecord } from './otlp-record.ts'

const { checkMs, checkOneOf, checkWholeNumber, invalidKind, invalidOption } = telemetryOptions

/** The part of an OpenTelemetry logger provider that is used; those of both SDK lines fit. */
export interface OtlpLoggerProvider {
  /** As of `LoggerProvider` in `@opentelemetry/api-logs`. */
  getLogger(name: string, version?: string): { emit(record: OtlpRecord): void }
}

interface OtlpDeliveryOptions {
  /**
   * Headers of every request, such as an API key. They win over those of the environment's
   * `OTEL_EXPORTER_OTLP_HEADERS`, which the OpenTelemetry exporter adds. The exporter sets `content-type` and
   * `user-agent` itself and ignores them here. Default none.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Time an attempt to send a batch may take, in milliseconds, above 0. Default 10 000. */
  readonly timeout?: number | undefined
  /**
   * `json` needs `@opentelemetry/exporter-logs-otlp-http`, `protobuf` needs
   * `@opentelemetry/exporter-logs-otlp-proto` and is smaller and faster. Default `json`.
   */
  readonly encoding?: 'json' | 'protobuf' | undefined
  /** Compression of request bodies. Default `none`. */
  readonly compression?: 'none' | 'gzip' | undefined
  /** How many events may be outstanding before new ones are dropped, at least 1. Default 131 072. */
  readonly maxPending?: number | undefined
  /**
   * How long a batch that could not be delivered is tried again, in milliseconds since its first
   * attempt. An attempt under way is not cut short. 0 or above. Default 120 000.
   */
  readonly retryBudgetMs?: number | undefined
  /**
   * The agent that opens connections, such as an `https.Agent` with a client certificate, or a proxy agent; or a function
   * that gets the protocol (`http:` or `https:`) and returns one. It is never destroyed. Defaults to an agent of the
   * transport's own, which uses the proxy that `HTTP_PROXY`, `HTTPS_PROXY`, and `NO_PROXY` name if `NODE_USE_ENV_PROXY` is
   * `1`.
   */
  readonly agent?: Agent | ((protocol: string) => Agent | Promise<Agent>) | undefined
}

/** What `OtlpTransportAdapter.create` takes: `url`, or `loggerProvider`, or both. */
export type OtlpTransportOptions = OtlpDeliveryOptions &
  (
    | {
        /**
         * The collector, `http:` or `https:`, without credentials. `/v1/logs` is added when it has
         * no path (`/` counts as none); a query is kept.
         */
        readonly url: string
        readonly loggerProvider?: OtlpLoggerProvider | undefined
      }
    | {
        readonly url?: string | undefined
        /**
         * The application's own provider. Records are handed to it and count as delivered then;
         * resource, limits, sending, flush and shutdown are the application's.
         */
        readonly loggerProvider: OtlpLoggerProvider
      }
  )

type AnyOtlpOptions = OtlpDeliveryOptions & {
  readonly [Member in 'url' | 'loggerProvider']?: OtlpSettings[Member] | undefined
}

/** Checked options, with every default filled in. */
export interface OtlpSettings {
  /** Where batches are posted, path included; empty where only `loggerProvider` was given. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeout: number
  readonly encoding: 'json' | 'protobuf'
  readonly compression: 'none' | 'gzip'
  readonly maxPending: number
  readonly retryBudgetMs: number
  readonly agent: OtlpAgent | undefined
  /** The proxy that the environment names, unless the application gives an agent. */
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
      retryBudgetMs: checkBudget,
      agent: (option, value) => {
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
    retryBudgetMs,
    agent,
    proxy: url === NO_URL || agent !== undefined ? undefined : readEnvProxy(new URL(url)),
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
