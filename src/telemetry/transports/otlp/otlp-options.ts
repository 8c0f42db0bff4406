import type { Agent } from 'node:http'
import { describeKind } from '../../../options/describe-value.ts'
import { MAX_TIMER_MS } from '../../../timers.ts'
import { invalidKind, invalidOption, unknownOption, unusableOption } from '../../options.ts'
import { type HttpProxy, readEnvProxy } from '../http/env-proxy.ts'
import { checkConnection } from '../http/target-options.ts'
import type { OtlpAgent } from './otlp-connection.ts'
import type { OtlpRecord } from './otlp-record.ts'

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

const METHOD = 'OtlpTransportAdapter.create'
const EXAMPLE = "'http://localhost:4318'"

const OPTION_NAMES = [
  'url',
  'headers',
  'timeout',
  'encoding',
  'compression',
  'maxPending',
  'retryBudgetMs',
  'agent',
  'loggerProvider',
]

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Checks what an application passed. No message repeats the url or a header's value.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`, naming the option and the hint.
 */
export function readOtlpOptions(options: OtlpTransportOptions): OtlpSettings {
  if (!isObject(options)) {
    throw unusableOption(
      `${METHOD}()`,
      `takes an object, such as { url: ${EXAMPLE} }, got ${describeKind(options)}`,
    )
  }
  for (const name of Object.keys(options)) {
    if (!OPTION_NAMES.includes(name))
      throw unknownOption(`${METHOD}()`, name, OPTION_NAMES, /^endpoint$/i.test(name) ? 'url' : name)
  }
  const loggerProvider = readLoggerProvider(options.loggerProvider)
  const url = readUrl(options.url, loggerProvider !== undefined)
  const agent = readAgent(options.agent, url)
  return {
    url,
    headers: readHeaders(options.headers),
    timeout: readNumber('timeout', options.timeout, 10_000, { above: 0, most: MAX_TIMER_MS }),
    encoding: readChoice('encoding', options.encoding, ['json', 'protobuf']),
    compression: readChoice('compression', options.compression, ['none', 'gzip']),
    maxPending: readCount('maxPending', options.maxPending, 131_072),
    retryBudgetMs: readNumber('retryBudgetMs', options.retryBudgetMs, 120_000, { least: 0 }),
    agent,
    proxy: url === '' || agent !== undefined ? undefined : readEnvProxy(new URL(url)),
    loggerProvider,
  }
}

function nameOf(option: string): string {
  return `${METHOD}({ ${option} })`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readLoggerProvider(value: OtlpLoggerProvider | undefined): OtlpLoggerProvider | undefined {
  if (value === undefined) return undefined
  if (typeof value?.getLogger !== 'function') {
    throw invalidKind(
      nameOf('loggerProvider'),
      'an object with a getLogger function, as an OpenTelemetry LoggerProvider has',
      value,
    )
  }
  return value
}

function readAgent(value: unknown, url: string): OtlpAgent | undefined {
  if (value === undefined || typeof value === 'function') return value as OtlpAgent | undefined
  if (!isObject(value) || typeof value.addRequest !== 'function')
    throw invalidKind(nameOf('agent'), 'an http.Agent or https.Agent, or a function that returns one', value)
  const agent = value as unknown as Agent
  if (url !== '') checkConnection(METHOD.replace('.create', ''), { agent }, url)
  return agent
}

function readUrl(value: unknown, optional: boolean): string {
  if (value === undefined && optional) return ''
  if (typeof value !== 'string' || value === '') {
    throw invalidKind(nameOf('url'), `the collector's address, such as ${EXAMPLE}`, value)
  }
  if (!URL.canParse(value)) {
    throw invalidKind(nameOf('url'), `an absolute URL, such as ${EXAMPLE}`, value)
  }
  const url = new URL(value)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw unusableOption(nameOf('url'), `must begin with http:// or https://, as in ${EXAMPLE}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw unusableOption(
      nameOf('url'),
      'must not hold a user name or password',
      'send credentials with the option headers',
    )
  }
  if (url.pathname === '/') url.pathname = '/v1/logs'
  url.hash = ''
  return url.href
}

function readHeaders(value: unknown): Record<string, string> {
  if (value === undefined) return {}
  if (!isObject(value)) {
    throw invalidKind(nameOf('headers'), "an object of strings, such as { 'x-api-key': '…' }", value)
  }
  const headers: Record<string, string> = {}
  for (const [name, text] of Object.entries(value)) {
    // Not repeated: it may be a secret that was put on the wrong side of the colon.
    if (!HEADER_NAME.test(name)) {
      throw unusableOption(
        nameOf('headers'),
        'has a name that is not allowed in HTTP',
        'use letters, digits and hyphens',
      )
    }
    if (text === undefined) continue
    if (typeof text !== 'string' || !HEADER_VALUE.test(text)) {
      throw unusableOption(
        nameOf('headers'),
        `must hold a single-line Latin-1 string for ${JSON.stringify(name)}, got ${describeKind(text)}`,
      )
    }
    headers[name] = text
  }
  return headers
}

interface NumberRange {
  readonly above?: number
  readonly least?: number
  readonly most?: number
}

function readNumber(name: string, value: unknown, fallback: number, range: NumberRange): number {
  if (value === undefined) return fallback
  const { above = -Infinity, least = -Infinity, most = Number.MAX_VALUE } = range
  if (typeof value === 'number' && value > above && value >= least && value <= most) return value
  const lower = range.least === undefined ? `above ${above}` : `of at least ${least}`
  const upper = range.most === undefined ? '' : ` and at most ${most}`
  throw invalidOption(
    nameOf(name),
    `a number of milliseconds ${lower}${upper}`,
    value,
    `the default is ${fallback}`,
  )
}

function readCount(name: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number
  throw invalidOption(nameOf(name), 'a whole number of at least 1', value, `the default is ${fallback}`)
}

function readChoice<const T extends string>(name: string, value: unknown, choices: readonly [T, T]): T {
  if (value === undefined) return choices[0]
  const chosen = choices.find((choice) => choice === value)
  if (chosen !== undefined) return chosen
  throw invalidOption(
    nameOf(name),
    `'${choices[0]}' or '${choices[1]}'`,
    value,
    `the default is '${choices[0]}'`,
  )
}
