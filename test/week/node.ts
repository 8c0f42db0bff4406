/** A node of the product: an Express server with the facade, the MCP server, and all transports. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import express from 'express'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { z } from 'zod'
import { createFacade } from '../../src/authorization/facade.ts'
import { type AuthorizationFacade, oidc, redisStore } from '../../src/authorization/index.ts'
import {
  createMcpAdapter,
  type GracefulShutdown,
  gracefulShutdown,
  KitMcpRouter,
  KitTelemetry,
  type LimitStore,
  mcpServer,
  OtlpTransportAdapter,
  redisEventBus,
  redisReplayStore,
  redisTaskStore,
  StoreStreamTransportAdapter,
  TeamChatTransportAdapter,
  type TelemetryEnvelope,
  type TelemetryStats,
} from '../../src/index.ts'
import { auditFile } from '../../src/telemetry/index.ts'
import { EventFeed, type EventReceiver } from './event-feed.ts'
import { createServer, type Listener, listenerOf } from './network.ts'
import { CLIENT_ID, CLIENT_SECRET, ISSUER, keyOf } from './services.ts'
import { Machine, time } from './time.ts'

export const ORIGIN = 'https://mcp.example.com'
export const RESOURCE = `${ORIGIN}/mcp`
export const AUDIT_SECRET = 'the secret of the simulated audit log'
export const STREAM = 'telemetry'

/** The settings that a deployment changes. */
export interface Configuration {
  readonly accessTtlSeconds: number
  readonly accessSeconds: number
  readonly refreshGraceSeconds: number
  /** The numbers of the keys of the facade. The first one signs. */
  readonly keys: readonly number[]
  /** The numbers of its secrets. The first one encrypts. */
  readonly secrets: readonly number[]
}

/** The role that the application gives to a person. */
export type Role = 'editor' | 'reader' | 'none'

/** The side effects of tools, by the id that the caller chose. */
export interface Effect {
  count: number
  readonly sub: string
  /** The process that ran the tool. */
  readonly process: string
}

/** The calls of `rare` that a user may make in a minute. */
export const MAX_RARE = 5

/** The time in which a decision of the policy has been made. */
const DECISION_MS = 10_000

/** A time in which something is not as usual. */
export interface Trouble {
  readonly fromMs: number
  toMs: number
}

/** The part of the world that all nodes know. */
export interface Surroundings {
  readonly roles: ReadonlyMap<string, Role>
  readonly effects: Map<string, Effect>
  /** The times in which subjects may not write. */
  readonly denied: ReadonlyMap<string, Trouble>
  violation(invariant: string, detail: string): void
  /** The ids of events that were emitted, by process. */
  readonly emitted: Map<string, string[]>
  /** The receiver of the events of all processes. */
  readonly receiver: EventReceiver
  auditPath(machine: string): string
}

/** The responses of a process that must have an event. */
export interface Refusals {
  mcp: number
  token: number
}

/** Waits without keeping the process alive. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref())
}

const router = (
  { effects, emitted, denied, violation }: Surroundings,
  name: string,
  emit: (id: string) => void,
  store: LimitStore,
) => {
  const ids: string[] = []
  emitted.set(name, ids)
  const happen = (id: string, sub: string): void => {
    const effect = effects.get(id) ?? { count: 0, sub, process: name }
    effect.count++
    effects.set(id, effect)
    ids.push(id)
    emit(id)
  }
  const subOf = (auth: unknown): string => String((auth as { user?: { id?: unknown } } | undefined)?.user?.id)
  return KitMcpRouter.create()
    .tool('who', { description: 'Names the user', scopes: ['mcp:read'] }, (_args, { auth }) => {
      const id = `${name}-${ids.length}`
      ids.push(id)
      emit(id)
      return subOf(auth)
    })
    .tool(
      'write',
      { description: 'Writes a note', scopes: ['mcp:write'], input: z.object({ id: z.string() }) },
      async ({ id }, { auth }) => {
        const { fromMs = Number.POSITIVE_INFINITY, toMs = 0 } = denied.get(subOf(auth)) ?? {}
        if (time.nowMs > fromMs + DECISION_MS && time.nowMs < toMs)
          violation('what the policy denies does not run', id)
        happen(id, subOf(auth))
        return id
      },
    )
    .tool(
      'rare',
      {
        description: 'Runs rarely',
        scopes: ['mcp:read'],
        limits: { calls: { max: MAX_RARE, perSeconds: 60, by: 'user' }, store },
      },
      () => 'done',
    )
    .tool(
      'slow',
      {
        description: 'Takes its time',
        scopes: ['mcp:read'],
        input: z.object({ id: z.string(), ms: z.number() }),
      },
      async ({ id, ms }, { auth, signal, progress }) => {
        happen(id, subOf(auth))
        for (let part = 1; part <= 4 && !signal.aborted; part++) {
          await pause(ms / 4)
          await progress(part, 4)
        }
        return id
      },
    )
    .tool(
      'job',
      {
        description: 'Works in the background',
        scopes: ['mcp:read'],
        task: 'optional',
        input: z.object({ id: z.string(), ms: z.number() }),
      },
      async ({ id, ms }, { auth }) => {
        happen(id, subOf(auth))
        await pause(ms)
        return id
      },
    )
    .resource('board', { uri: 'board://notes' }, () => String(effects.size))
}

/** One machine with the product, and its running process. */
export class Node {
  readonly machine: Machine
  readonly #world: Surroundings
  #starts = 0
  #server: Server | undefined
  #redis: ReturnType<Node['connect']> | undefined
  #closers: (() => unknown)[] = []
  facade: AuthorizationFacade | undefined
  notify: ReturnType<typeof createMcpAdapter>['notify'] | undefined
  telemetry: { stats(): TelemetryStats } | undefined
  shutdown: GracefulShutdown<TelemetryStats> | undefined
  /** Counts of the events of this process, by name and reason. */
  events = new Map<string, number>()
  /** Counts of the refusals of this process. */
  refusals: Refusals = { mcp: 0, token: 0 }
  /** The requests that have not been answered. */
  readonly open = new Set<IncomingMessage>()
  isServing = false
  feed: EventFeed | undefined
  /** The ids of the chains in its audit log, of processes that have ended. */
  readonly chains = new Set<string>()
  readonly #usesNodeRedis: boolean

  constructor(name: string, world: Surroundings, usesNodeRedis: boolean) {
    this.machine = new Machine(name)
    this.#world = world
    this.#usesNodeRedis = usesNodeRedis
  }

  /** The name of the running process. */
  get name(): string {
    return `${this.machine.name}.${this.#starts}`
  }

  get listener(): Listener | undefined {
    return this.#server === undefined || !this.isServing ? undefined : listenerOf(this.machine, this.#server)
  }

  start(configuration: Configuration): void {
    this.#starts++
    this.open.clear()
    this.events = new Map()
    this.refusals = { mcp: 0, token: 0 }
    this.machine.restart().wake(() => this.#build(configuration))
    this.isServing = true
  }

  kill(): void {
    this.isServing = false
    this.machine.program.kill()
    this.open.clear()
  }

  /** Shuts down gracefully. Resolves with the final statistics. */
  async drain(): Promise<TelemetryStats | undefined> {
    const { shutdown } = this
    if (shutdown === undefined) return undefined
    const report = await this.machine.program.wake(() => {
      const closing = shutdown.close()
      this.isServing = false
      return closing
    })
    return report.telemetry
  }

  /** Closes what an application closes itself. */
  async close(): Promise<void> {
    await this.machine.program.wake(async () => {
      for (const close of this.#closers.splice(0)) await close()
      this.#redis?.close()
      await this.facade?.close()
    })
  }

  countOf(name: string): number {
    let count = 0
    for (const [event, events] of this.events)
      if (event === name || event.startsWith(`${name}:`)) count += events
    return count
  }

  /** Connects to Redis with one of the two libraries. */
  connect(): { readonly redis: Redis; close(): void } {
    const address = { host: 'redis.internal', port: 6379 }
    const waitMs = (times: number) => Math.min(times * 50, 1_000)
    if (this.#usesNodeRedis) {
      const client = createClient({ RESP: 2, socket: { ...address, reconnectStrategy: waitMs } })
      client.on('error', () => undefined)
      client.connect().catch(() => undefined)
      return { redis: client as unknown as Redis, close: () => client.destroy() }
    }
    const redis = new Redis({
      ...address,
      commandTimeout: 1_000,
      maxRetriesPerRequest: 1,
      autoResubscribe: false,
      retryStrategy: waitMs,
    })
    redis.on('error', () => undefined)
    return { redis, close: () => redis.disconnect() }
  }

  #build({ accessTtlSeconds, accessSeconds, refreshGraceSeconds, keys, secrets }: Configuration): void {
    const { events, machine } = this
    this.#redis = this.connect()
    const { redis } = this.#redis
    const telemetry = KitTelemetry.create()
      .withService('week')
      .withLogger(false)
      .withSampling({ infoRate: 1, debugRate: 0 })
      .addTransport({
        type: 'observer',
        handle({ name, attributes }: TelemetryEnvelope) {
          const reason = attributes?.['kit.mcp.auth.refused.reason'] ?? attributes?.reason
          const key = reason === undefined ? name : `${name}:${reason}`
          events.set(key, (events.get(key) ?? 0) + 1)
        },
      })
      .addTransport(OtlpTransportAdapter.create({ url: 'https://collector.internal:4318' }))
      .addTransport(StoreStreamTransportAdapter.create({ store: redis, stream: STREAM, maxLen: 1_000_000 }))
      .addTransport(
        TeamChatTransportAdapter.create({ webhookUrl: 'https://chat.example.com/hook', minLevel: 'error' }),
      )
      .withAudit({
        transport: auditFile(this.#world.auditPath(machine.name)),
        names: ['kit.mcp.auth.*', 'kit.authorization.*', 'week.*'],
        secret: AUDIT_SECRET,
      })
      .build()
    this.telemetry = telemetry
    const facade = createFacade(
      {
        url: ORIGIN,
        resource: RESOURCE,
        upstream: oidc({
          issuer: ISSUER,
          clientId: CLIENT_ID,
          clientSecret: CLIENT_SECRET,
          scopes: ['openid'],
        }),
        scopes: { 'mcp:read': 'Read your notes', 'mcp:write': 'Change your notes' },
        allow: ({ claims }) => this.#world.roles.get(claims.sub) !== 'none' || { deny: 'You have left' },
        grantScopes: ({ claims, requested }) =>
          this.#world.roles.get(claims.sub) === 'editor'
            ? requested
            : requested.filter((scope) => scope === 'mcp:read'),
        tokens: { accessTtlSeconds, refreshGraceSeconds },
        grants: { accessSeconds },
        clients: { maxRegistrationsPerMinute: 1_000 },
        store: redisStore(redis),
        keys: {
          signing: keys.map(
            (number) => ({ ...keyOf(number).export({ format: 'jwk' }), kid: `facade-${number}` }) as never,
          ),
          encryption: secrets.map((number) => `the encryption secret ${number} of the simulation`),
        },
        telemetry,
        page: { title: 'Week' },
      },
      {
        lookup: ((_host: string, _options: object, callback: (error: null, found: object[]) => void) =>
          callback(null, [{ address: '192.0.2.1', family: 4 }])) as never,
        isAllowed: () => true,
      },
    )
    this.facade = facade
    const tasks = redisTaskStore(redis)
    const eventBus = redisEventBus(redis)
    const feed = new EventFeed(this.name, this.#world.receiver)
    this.feed = feed
    const emit = (id: string): void => {
      telemetry.emit('week.effect', { attributes: { id } })
      feed.emit(id)
    }
    const adapter = createMcpAdapter({
      serverInfo: { name: 'week', version: '1.0.0' },
      router: router(
        this.#world,
        this.name,
        emit,
        (options) =>
          new RateLimiterRedis({ storeClient: redis, useRedisPackage: this.#usesNodeRedis, ...options }),
      ),
      authorize: async ({ kind, name, auth }) => {
        await pause(1)
        const { toMs = 0 } = this.#world.denied.get(String(auth?.user?.id)) ?? {}
        return kind !== 'tool' || name !== 'write' || time.nowMs > toMs
      },
      oauth: {
        ...facade.oauth,
        dpop: { mode: 'allowed', replayStore: redisReplayStore(redis) },
      },
      sessions: true,
      eventBus,
      tasks: { store: tasks },
      requestStateSecret: 'the state secret of the simulated nodes',
      telemetry,
    })
    this.notify = adapter.notify
    this.#closers = [() => eventBus.close(), () => tasks.close(), () => feed.close()]
    const app = express()
    const server = createServer(app)
    server.prependListener('request', (req, res) => this.#watch(req, res))
    this.shutdown = gracefulShutdown(server, { telemetry, tasks: adapter.tasks, timeoutMs: 25_000 })
    app.use(facade.router, facade.account, mcpServer(adapter))
    this.#server = server
  }

  #watch(req: IncomingMessage, res: ServerResponse): void {
    const { refusals, open } = this
    open.add(req)
    const path = String(req.url).split('?')[0]
    res.once('close', () => open.delete(req))
    res.once('finish', () => {
      const { statusCode: status } = res
      if (path === '/mcp' && (status === 401 || status === 403)) refusals.mcp++
      if (path === '/token' && req.method === 'POST' && status >= 400) refusals.token++
    })
  }
}
