import * as crypto from 'node:crypto'
import { Writable } from 'node:stream'
import { attributes, type Contestant, EVENT, nullSink, SERVICE, SESSION } from './emit-event.ts'

/** Imports a package without its types, because it may not be installed. */
const load = (name: string): Promise<any> => import(name)

/** Hashes a value with the fastest function of Node (20.12 and later), for every contestant. */
const sha256 = (value: unknown): string => crypto.hash('sha256', String(value), 'hex')

/** Copies attributes without `password` and with a hashed `email` at every depth, for contestants without redaction. */
export function redactByHand(given: Record<string, unknown>): Record<string, unknown> {
  const copy: Record<string, unknown> = {}
  for (const key of Object.keys(given)) {
    const folded = key.toLowerCase()
    if (folded === 'password') continue
    const value = given[key]
    if (folded === 'email') copy[key] = sha256(value)
    else if (Array.isArray(value)) copy[key] = value.slice()
    else if (typeof value === 'object' && value !== null)
      copy[key] = redactByHand(value as Record<string, unknown>)
    else copy[key] = value
  }
  return copy
}

async function pinoWithRedact(): Promise<Contestant> {
  const { pino } = await load('pino')
  const logger = pino(
    {
      base: SERVICE,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: ['attributes.password', 'attributes.email'],
        censor: (value: unknown, path: string[]) => (path.at(-1) === 'email' ? sha256(value) : undefined),
      },
    },
    nullSink(),
  )
  const session = logger.child(SESSION)
  return { emit: () => session.info({ attributes: attributes() }, EVENT) }
}

async function winstonJson(): Promise<Contestant> {
  const winston = await load('winston')
  const { default: { createLogger, format, transports } = winston } = winston
  const sink = nullSink()
  const stream = new Writable({
    decodeStrings: false,
    write: (line, _encoding, done) => {
      sink.write(line)
      done()
    },
  })
  const redact = format((info: any) => ({ ...info, attributes: redactByHand(info.attributes) }))
  const logger = createLogger({
    defaultMeta: SERVICE,
    format: format.combine(redact(), format.timestamp(), format.json()),
    transports: [new transports.Stream({ stream })],
  })
  const session = logger.child(SESSION)
  return { emit: () => session.info(EVENT, { attributes: attributes() }) }
}

async function logTape(): Promise<Contestant> {
  const [{ configure, getLogger }, { redactByField }] = await Promise.all([
    load('@logtape/logtape'),
    load('@logtape/redaction'),
  ])
  // A wrapper has one action, so that removing and hashing need two.
  const hashing = redactByField(() => {}, { fieldPatterns: [/^email$/i], action: sha256 })
  const sink = redactByField(hashing, { fieldPatterns: [/^password$/i], action: 'delete' })
  await configure({
    reset: true,
    sinks: { none: sink },
    loggers: [
      { category: 'bench', sinks: ['none'], lowestLevel: 'info' },
      { category: ['logtape', 'meta'], sinks: [], lowestLevel: 'fatal' },
    ],
  })
  const session = getLogger('bench').with({ ...SERVICE, ...SESSION })
  return { emit: () => session.info(EVENT, { attributes: attributes() }) }
}

async function evlog(): Promise<Contestant> {
  const { initLogger, log } = await load('evlog')
  const sink = nullSink()
  initLogger({
    env: SERVICE,
    silent: true,
    redact: {
      paths: ['attributes.password', 'attributes.email'],
      builtins: false,
      replacement: (value: unknown, { path }: { path?: string }) =>
        path?.endsWith('email') ? sha256(value) : '',
    },
    drain: ({ event }: { event: unknown }) => sink.write(`${JSON.stringify(event)}\n`),
  })
  return { emit: () => log.info({ event: EVENT, ...SESSION, attributes: attributes() }) }
}

async function openTelemetry(): Promise<Contestant> {
  const [{ BatchLogRecordProcessor, LoggerProvider }, { resourceFromAttributes }] = await Promise.all([
    load('@opentelemetry/sdk-logs'),
    load('@opentelemetry/resources'),
  ])
  const exporter = {
    export: (_records: unknown, done: (result: { code: number }) => void) => done({ code: 0 }),
    forceFlush: async () => {},
    shutdown: async () => {},
  }
  const processor = new BatchLogRecordProcessor({ exporter, maxQueueSize: 65_536 })
  const provider = new LoggerProvider({
    resource: resourceFromAttributes({
      'service.name': SERVICE.service,
      'service.version': SERVICE.version,
      'deployment.environment.name': SERVICE.environment,
    }),
    processors: [processor],
  })
  const logger = provider.getLogger('bench')
  return {
    emit: () =>
      logger.emit({
        eventName: EVENT,
        timestamp: Date.now(),
        severityNumber: 9,
        severityText: 'INFO',
        attributes: {
          'session.id': SESSION.sessionId,
          'actor.type': SESSION.actor.type,
          'actor.id': SESSION.actor.id,
          'scope.type': SESSION.scope.type,
          'scope.id': SESSION.scope.id,
          ...redactByHand(attributes()),
        },
      }),
    settle: () => provider.forceFlush(),
  }
}

/** The peers by their name in the table, which includes the form that they give to an event. */
export const PEERS: Readonly<Record<string, () => Promise<Contestant>>> = {
  'pino 10 with redact, a line of JSON': pinoWithRedact,
  'winston json, redaction by hand, a line of JSON': winstonJson,
  'evlog with redact, a line of JSON': evlog,
  'LogTape with redaction, an object': logTape,
  'OpenTelemetry SDK (batch), redaction by hand, an object': openTelemetry,
}
