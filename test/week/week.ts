/** The world: its parts, its faults, and what must always be true. */
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import type { TelemetryStats } from '../../src/telemetry/index.ts'
import { verifyAudit } from '../../src/telemetry/index.ts'
import type { Page } from '../support/authorization/browser.ts'
import { collectedHeap } from '../support/telemetry/recording.ts'
import { EventReceiver } from './event-feed.ts'
import { disturbs, drawFaults, FAULTS, type Fault, type FaultKind } from './faults.ts'
import { addedHeaders, network } from './network.ts'
import {
  AUDIT_SECRET,
  type Configuration,
  type Effect,
  MAX_RARE,
  Node,
  ORIGIN,
  type Role,
  STREAM,
  type Trouble,
} from './node.ts'
import {
  Attacker,
  DOCUMENT_HOST,
  documents,
  type Exchange,
  type Judge,
  list,
  Person,
  PROFILES,
  type Task,
} from './people.ts'
import { Random } from './random.ts'
import { SimulatedRedis } from './redis.ts'
import { Collector, DocumentHost, IdentityProvider, PERSON_HEADER, type Service } from './services.ts'
import { Machine, productRandom, realMs, realTurn, START_MS, sleep, time } from './time.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The time after the end of a fault for which its consequences are excused: clients and nodes connect again. */
const RECOVERY_MS = 40 * SECOND

/** Clocks differ by up to 30 s, and a token is rounded to seconds. */
const SKEW_MS = 35 * SECOND

/** The shortest grace of the deployments. */
const MIN_GRACE_MS = 45 * SECOND

/** The longest one. */
const MAX_GRACE_MS = 120 * SECOND

/** The longest `grants.accessSeconds` of the deployments. */
const ACCESS_MS = 10 * SECOND

/** The longest time for which a request may wait for its response. */
const ANSWER_MS = 5 * MINUTE

/** The time after the death of a node for which its last report counts, at least and at most, and the grace after that. */
const MIN_ALIVE_MS = 3 * SECOND
const MAX_ALIVE_MS = 8 * SECOND
const LOST_GRACE_MS = 7 * SECOND

/** The time for which an idle session stays. */
const SESSION_MS = 30 * MINUTE

/** The memory that a run may need, beyond what it has recorded: caches of modules, the state of people, and that of nodes. */
const MAX_GROWN_BYTES = 40 * 2 ** 20

/** The memory of one record of the world. */
const RECORD_BYTES = 2_048

export interface WeekOptions {
  readonly seed: number
  readonly durationMs: number
  /** The mean time between two faults. */
  readonly faultEveryMs: number
  /** The mean time between two actions of a client. */
  readonly actEveryMs: number
  readonly people: number
  /** The hours of a day in which people act. */
  readonly workdayHours: number
  /** The numbers of the faults that happen. Defaults to all. */
  readonly only?: ReadonlySet<number> | undefined
  /** Prints each line of the log at once. */
  readonly isVerbose?: boolean | undefined
}

/** Something that must never happen, and did. */
export interface Violation {
  readonly atMs: number
  readonly invariant: string
  readonly detail: string
}

export interface WeekReport {
  readonly violations: readonly Violation[]
  readonly faults: readonly Fault[]
  readonly log: readonly string[]
  /** The same for two runs of the same seed. */
  readonly digest: string
  readonly figures: Readonly<Record<string, number>>
}

/** A sign-in of a person, as the tokens describe it. */
interface Grant {
  readonly id: string
  readonly person: Person
  readonly begunMs: number
  /** The reason for the end of its access, and the time. */
  ended?: { readonly atMs: number; readonly reason: string }
}

export class Week implements Judge, Disposable {
  readonly options: WeekOptions
  readonly random: Random
  readonly redis: SimulatedRedis
  readonly provider: IdentityProvider
  readonly services: Readonly<Record<'provider' | 'documents' | 'collector' | 'chat', Service>>
  readonly collector: Collector
  readonly nodes: readonly Node[]
  readonly people: readonly Person[]
  readonly attacker: Attacker
  configuration: Configuration = {
    accessTtlSeconds: 600,
    accessSeconds: 5,
    refreshGraceSeconds: 60,
    keys: [0],
    secrets: [0],
  }
  isRunning = true
  readonly #dir = mkdtempSync(join(tmpdir(), 'mcp-gatekit-week-'))
  readonly #roles = new Map<string, Role>()
  readonly #effects = new Map<string, Effect>()
  readonly #emitted = new Map<string, string[]>()
  readonly #troubles: (Trouble & { readonly kind: FaultKind })[] = []
  readonly #grants = new Map<string, Grant>()
  /** The first use of each refresh token, and the token that replaced it. */
  readonly #refreshes = new Map<string, { firstMs: number; successor?: string }>()
  /** The refresh that has issued each refresh token. */
  readonly #exchanges = new Map<string, Exchange>()
  /** The grant of each refresh token. */
  readonly #grantIds = new Map<string, string>()
  /** The times at which people lost access to something, by person. */
  readonly #demotions = new Map<string, { readonly atMs: number; readonly role: Role }>()
  readonly #denied = new Map<string, Trouble>()
  /** The processes that were killed, and the times at which any process ended. */
  readonly #killed = new Map<string, number>()
  #lastEndMs = Number.NEGATIVE_INFINITY
  #heapBefore = 0
  readonly #calledIds: { readonly id: string; readonly sub: string }[] = []
  readonly #tasks = new Set<Task>()
  /** The nodes that shut down. What began it starts them again. */
  readonly #draining = new Set<Node>()
  /** The process that has served each session. */
  readonly #serves = new Map<string, unknown>()
  readonly #log: string[] = []
  readonly #digest = createHash('sha256')
  readonly #violations: Violation[] = []
  readonly #figures = {
    requests: 0,
    refreshes: 0,
    refusals: 0,
    tasks: 0,
    faults: 0,
    chains: 0,
    /** Answers about tasks of a lost node, within its grace and after it. */
    inGrace: 0,
    afterGrace: 0,
    /** Questions that could be decided about sessions, limits, and notifications. */
    sessions: 0,
    limits: 0,
    notified: 0,
    /** The largest growth of the memory while nodes run, beyond the records. */
    levelMiB: 0,
  }
  #lostDataMs = Number.NEGATIVE_INFINITY
  #turn = 0
  #isOver = false

  constructor(options: WeekOptions) {
    this.options = options
    const { seed } = options
    this.random = new Random(seed, 'world')
    productRandom.reseed(seed, 'product')
    network.random.reseed(seed, 'network')
    this.redis = new SimulatedRedis(new Machine('redis.internal'), 'redis.internal')
    this.provider = new IdentityProvider(seed)
    const documentHost = new DocumentHost(DOCUMENT_HOST, documents())
    this.collector = new Collector('collector.internal', idsInOtlp, {})
    const chat = new Collector('chat.example.com', () => [], {})
    this.services = {
      provider: this.provider.service,
      documents: documentHost.service,
      collector: this.collector.service,
      chat: chat.service,
    }
    const surroundings = {
      roles: this.#roles,
      effects: this.#effects,
      emitted: this.#emitted,
      denied: this.#denied,
      violation: (invariant: string, detail: string) => this.violation(invariant, detail),
      receiver: new EventReceiver(),
      auditPath: (machine: string) => join(this.#dir, `${machine}.log`),
    }
    this.nodes = ['one', 'two', 'three'].map(
      (name) => new Node(`node-${name}`, surroundings, name === 'three'),
    )
    network.serve(new URL(ORIGIN).host, (session) => this.#balance(session))
    this.people = Array.from({ length: options.people }, (_, index) => {
      const profile = PROFILES[index % PROFILES.length] as (typeof PROFILES)[number]
      return new Person(`${profile.name}-${index}`, profile, options, this)
    })
    this.attacker = new Attacker(options, this)
    for (const { name, machine } of [...this.people, this.attacker.person]) {
      this.#roles.set(name, 'editor')
      this.provider.people.add(name)
      addedHeaders.set(machine.name, (url) =>
        url.host === 'id.example.com' ? { [PERSON_HEADER]: name } : {},
      )
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#dir, { recursive: true, force: true })
  }

  /** Runs the world. */
  async run(): Promise<WeekReport> {
    const { seed, durationMs, faultEveryMs, actEveryMs, only } = this.options
    for (const node of this.nodes) node.start(this.configuration)
    await time.run(5 * SECOND)
    this.#heapBefore = await collectedHeap()
    const faults = drawFaults(seed, durationMs, faultEveryMs).filter(
      ({ number }) => only?.has(number) !== false,
    )
    for (const person of this.people) person.live(actEveryMs)
    this.attacker.person.live(actEveryMs)
    for (const fault of faults) setTimeout(() => void this.#cause(fault), fault.atMs)
    void this.#repeat(Math.max(5 * MINUTE, actEveryMs / 4), () => this.#attack())
    void this.#repeat(4 * MINUTE, () => this.#notify(this.random.pick(this.nodes)))
    void this.#repeat(6 * MINUTE, () => this.#exceed(this.random.pick(this.people)))
    const endMs = time.nowMs + durationMs
    let measureMs = time.nowMs + durationMs / 2
    while (time.nowMs < endMs && this.#violations.length === 0) {
      await time.run(Math.min(time.nowMs + MINUTE, endMs))
      this.#checkStep()
      if (time.nowMs < measureMs) continue
      measureMs += durationMs
      await this.#checkMemory()
    }
    if (this.#violations.length === 0) await this.#end()
    this.#isOver = true
    const digest = this.#digest.digest('hex').slice(0, 16)
    const effects = this.#effects.size
    const grownBytes = (await this.#heapWithoutRecords()) - this.#heapBefore
    if (this.#violations.length === 0 && grownBytes > MAX_GROWN_BYTES)
      this.violation('memory returns to its level', `${Math.round(grownBytes / 2 ** 20)} MiB more`)
    return {
      violations: this.#violations,
      faults,
      log: this.#log,
      digest,
      figures: {
        ...this.#figures,
        commands: this.redis.commands,
        cuts: network.cut,
        calls: this.people.reduce((sum, { calls }) => sum + calls, 0),
        signIns: this.people.reduce((sum, { signIns }) => sum + signIns, 0),
        attacks: this.attacker.attempts,
        effects,
        grownMiB: Math.round(grownBytes / 2 ** 20),
        realSeconds: Math.round(realMs() / 1000),
      },
    }
  }

  get #records() {
    return [
      ...[this.#effects, this.#emitted, this.#grants, this.#refreshes, this.#exchanges, this.#grantIds],
      this.collector.events,
    ]
  }

  /** The bytes of the heap without what the world itself has recorded. */
  async #heapWithoutRecords(): Promise<number> {
    this.redis.data.replace(new Map())
    for (const record of this.#records) record.clear()
    time.forget()
    return await collectedHeap()
  }

  /** Compares the memory, while nodes run, with what the world has recorded. */
  async #checkMemory(): Promise<void> {
    time.forget()
    const sizes = [...this.#records, this.redis.data, { size: this.redis.data.entriesOf(STREAM).length }]
    const recordBytes = sizes.reduce((sum, { size }) => sum + size, 0) * RECORD_BYTES
    const grownBytes = (await collectedHeap()) - this.#heapBefore - recordBytes
    this.#figures.levelMiB = Math.max(this.#figures.levelMiB, Math.round(grownBytes / 2 ** 20))
    if (grownBytes > MAX_GROWN_BYTES)
      this.violation(
        'running nodes keep their level of memory',
        `${Math.round(grownBytes / 2 ** 20)} MiB more`,
      )
  }

  // What people tell.

  log(line: string): void {
    const text = `${formatTime(time.nowMs)} ${line}`
    if (!this.#isOver) this.#digest.update(text)
    this.#log.push(text)
    if (this.#log.length > 2_000) this.#log.splice(0, 1_000)
    if (this.options.isVerbose === true) process.stdout.write(`${text}\n`)
  }

  violation(invariant: string, detail: string): void {
    this.log(`VIOLATION: ${invariant}: ${detail}`)
    this.#violations.push({ atMs: time.nowMs, invariant, detail })
  }

  isTroubled(fromMs: number): boolean {
    return this.#isTroubledBy(disturbs, fromMs)
  }

  #isTroubledBy(concerns: (kind: FaultKind) => boolean, fromMs: number): boolean {
    return this.#troubles.some(
      ({ kind, fromMs: begunMs, toMs }) =>
        begunMs <= time.nowMs && toMs + RECOVERY_MS >= fromMs && concerns(kind),
    )
  }

  #isStoreTroubled(fromMs: number): boolean {
    return this.#isTroubledBy((kind) => /Redis|node from|slow a link/.test(kind), fromMs)
  }

  called(id: string, { sub }: Person): void {
    this.#calledIds.push({ id, sub })
  }

  taskBegan(task: Task): void {
    this.#figures.tasks++
    this.#tasks.add(task)
    this.attacker.see({ kind: 'task', value: task.id, owner: task.person, atMs: time.nowMs })
    void this.#watch(task)
  }

  denied(id: string, { name, sub }: Person, startedMs: number): void {
    if ((this.#denied.get(sub)?.toMs ?? -1) < startedMs)
      this.violation('what the policy permits is not denied', `${name}: ${id}`)
  }

  deny({ name, sub }: Person): void {
    this.log(`the policy denies ${name}`)
    this.#denied.set(sub, { fromMs: time.nowMs, toMs: Number.POSITIVE_INFINITY })
  }

  permit({ sub }: Person): void {
    const denied = this.#denied.get(sub)
    if (denied !== undefined) denied.toMs = time.nowMs
  }

  /** Checks that an idle session stays for its time, and not longer. */
  sessionLeft(session: string, person: Person): void {
    const program = this.#serves.get(session)
    const node = this.nodes.find(({ machine }) => machine === network.affinity.get(session))
    if (node === undefined || program !== node.machine.program || !this.random.chance(0.2)) return
    const isLate = this.random.chance(0.5)
    const ask = async (): Promise<void> => {
      await sleep(SESSION_MS + (isLate ? 3 : -3) * MINUTE)
      const response = await person.machine.program.run(() =>
        list(session, String(person.wallet.tokens()?.access_token)),
      )
      await response?.body?.cancel()
      const { status = 0 } = response ?? {}
      if (!node.isServing || node.machine.program !== program || ![200, 404].includes(status)) return
      this.#figures.sessions++
      if ((status === 404) !== isLate)
        this.violation('a session lasts as long as its grace', `${person.name}: ${status}, late: ${isLate}`)
    }
    void ask()
  }

  /** Calls a tool more often than its limit allows, at several nodes at once. */
  async #exceed(person: Person): Promise<void> {
    const token = person.wallet.tokens()?.access_token
    if (token === undefined) return
    const begunMs = time.nowMs
    const replies = await person.machine.program.run(() =>
      Promise.all(
        Array.from({ length: MAX_RARE + 3 }, () => person.send('tools/call', { name: 'rare' }, token)),
      ),
    )
    const results = replies.flatMap((reply) => reply?.message?.result ?? [])
    const ran = results.filter(({ isError }) => isError !== true).length
    if (results.length === replies.length && !this.#isStoreTroubled(begunMs - MINUTE)) {
      this.#figures.limits++
      if (ran !== MAX_RARE)
        this.violation('nodes share a limit', `${person.name} ran ${ran} calls instead of ${MAX_RARE}`)
    }
    await sleep(2 * MINUTE)
  }

  /** Notifies of a change at one node. Clients of all nodes must learn it. */
  async #notify(node: Node): Promise<void> {
    if (!node.isServing) return
    const begunMs = time.nowMs
    const before = this.#listeners().map((client) => ({
      client,
      heard: client.heard,
      session: client.session,
    }))
    node.machine.program.run(() => node.notify?.toolsChanged())
    await sleep(15 * SECOND)
    const hidesChanges = (kind: FaultKind) => /Redis|partition|slow a link/.test(kind)
    if (this.#isTroubledBy(hidesChanges, begunMs)) return
    const listening = new Set(this.#listeners())
    for (const { client, heard, session } of before) {
      if (!listening.has(client) || client.session !== session) continue
      this.#figures.notified++
      if (client.heard === heard)
        this.violation('a client learns of each change', `${node.name} notified ${session}`)
    }
  }

  /** The clients with an event stream at a node. */
  #listeners() {
    const streams = this.nodes.filter(({ isServing }) => isServing).flatMap(({ open }) => [...open])
    const sessions = streams
      .filter(({ method }) => method === 'GET')
      .map(({ headers }) => headers['mcp-session-id'])
    const known = new Set(sessions.map(String))
    return this.people.flatMap((person) => person.listeners(known))
  }

  exchanged(exchange: Exchange): void {
    const { proven, person, url, status, method, token, session, call, form, startedMs, detail, body } =
      exchange
    this.#figures.requests++
    this.log(
      `${person.name} ${method} ${url.pathname} ${call || String(form.get('grant_type') ?? '')} → ${status} ${status === 0 ? detail : String(body.error ?? '')} ${Math.round(time.nowMs - startedMs)} ms`,
    )
    if (url.origin !== ORIGIN) return
    if (session !== undefined) {
      this.attacker.see({ kind: 'session', value: session, owner: person, atMs: time.nowMs })
      if (status === 404) this.#serves.delete(session)
      else if (status === 200) this.#serves.set(session, network.affinity.get(session)?.program)
    }
    if (proven !== undefined && token !== undefined && status === 200 && this.random.chance(0.2))
      void sleep(this.random.between(0, 2 * MINUTE)).then(() => {
        if (this.isRunning && this.#lostDataMs < startedMs) void this.attacker.repeat(proven, token, person)
      })
    if (status === 0) {
      if (detail !== 'aborted' && this.isRunning && !this.isTroubled(startedMs))
        this.violation('every request is answered', `${person.name} ${method} ${url.pathname}: ${detail}`)
      if (time.nowMs - startedMs > ANSWER_MS && method !== 'GET')
        this.violation(
          'every request is answered',
          `${person.name} ${method} ${url.pathname} waited ${time.nowMs - startedMs} ms`,
        )
    }
    if (status >= 500 && !this.isTroubled(startedMs))
      this.violation(
        'a server without a fault does not fail',
        `${person.name} ${method} ${url.pathname} ${call}: ${status} ${JSON.stringify(body)}`,
      )
    if (status === 429)
      this.violation('a user within the limits is served', `${person.name} ${url.pathname}: 429`)
    if (url.pathname === '/token') this.#onToken(exchange)
    else if (url.pathname === '/mcp' && token !== undefined) this.#onMcp(exchange, token)
  }

  consentShown(page: Page, person: Person): void {
    if (person !== this.attacker.person && this.random.chance(0.2)) void this.attacker.agree(page, person)
  }

  /**
   * Lets the attacker repeat a token request of a person. The facade cannot distinguish the two, so the grant ends (RFC 6749
   * section 4.1.2 and RFC 9700 section 4.14.2).
   */
  async #replay({ person, form, startedMs }: Exchange, grant: Grant, waitMs = 0): Promise<void> {
    // Without its proof, the request says nothing about reuse.
    if (person.profile.hasKey === true) return
    await sleep(this.random.between(0, MINUTE) + waitMs)
    if (!this.isRunning || this.#lostDataMs >= startedMs) return
    this.log(`the attacker repeats the ${form.get('grant_type')} of ${person.name}`)
    const end = { atMs: Number.POSITIVE_INFINITY, reason: 'repeated' }
    grant.ended ??= end
    const status = await this.attacker.replay(form.toString(), person)
    // A code is forgotten after a minute, and its grant stays if it is used later.
    const mustEnd = status === 400 && form.has('refresh_token')
    if (mustEnd && grant.ended === end && this.#lostDataMs < startedMs)
      grant.ended = { ...end, atMs: time.nowMs }
  }

  #onToken(exchange: Exchange): void {
    const { person, status, form, body, startedMs } = exchange
    const used = form.get('refresh_token')
    const code = form.get('code')
    if (code !== null) this.attacker.see({ kind: 'code', value: code, owner: person, atMs: time.nowMs })
    if (status === 200) {
      const token = String(body.access_token)
      const { gid } = decodeJwt(token)
      this.attacker.see({ kind: 'access', value: token, owner: person, atMs: time.nowMs })
      this.attacker.see({
        kind: 'refresh',
        value: String(body.refresh_token),
        owner: person,
        atMs: time.nowMs,
      })
      this.#grantIds.set(String(body.refresh_token), String(gid))
      if (!this.#grants.has(String(gid))) {
        this.#grants.set(String(gid), { id: String(gid), person, begunMs: startedMs })
        this.log(`${person.name} has the grant ${String(gid).slice(0, 6)}`)
      }
      if (used === null) {
        const grant = this.#grants.get(String(gid))
        if (grant !== undefined && this.random.chance(0.1)) void this.#replay(exchange, grant)
        return
      }
      this.#figures.refreshes++
      const refresh = this.#refreshes.get(used) ?? { firstMs: startedMs }
      const successor = String(body.refresh_token)
      if (refresh.successor !== undefined && refresh.successor !== successor)
        this.violation('a refresh token has one successor', `${person.name} got two`)
      this.#refreshes.set(used, { ...refresh, successor })
      const grant = this.#grants.get(String(gid))
      const previous = this.#exchanges.get(used)
      this.#exchanges.set(successor, exchange)
      this.#exchanges.delete(used)
      // The successor of the previous token is in use now, so its grace is over.
      if (grant !== undefined && previous !== undefined && this.random.chance(0.02))
        void this.#replay(previous, grant)
      // The grace ends by itself, too.
      else if (grant !== undefined && this.random.chance(0.02))
        void this.#replay(exchange, grant, MAX_GRACE_MS + SKEW_MS)
      const { ended } = grant ?? {}
      if (
        ended !== undefined &&
        startedMs > ended.atMs &&
        ended.reason !== 'role' &&
        !this.#isStoreTroubled(startedMs) &&
        this.#lostDataMs < ended.atMs
      )
        this.violation('no refresh succeeds after a revocation', `${person.name}: ${ended.reason}`)
      const demotion = this.#demotions.get(person.name)
      if (demotion !== undefined && startedMs > demotion.atMs) {
        const scope = String(body.scope)
        if (demotion.role === 'none' || scope.includes('mcp:write'))
          this.violation(
            'a demoted user gets no further tokens',
            `${person.name} is ${demotion.role} and got ${scope}`,
          )
      }
      return
    }
    if (used === null) return
    const first = this.#refreshes.get(used)?.firstMs
    if (first === undefined) this.#refreshes.set(used, { firstMs: startedMs })
    if (status === 0 || status >= 500) return
    const reason = this.#reasonToRefuse(person, used, first)
    this.#figures.refusals++
    if (reason === undefined)
      this.violation(
        'a user who did nothing wrong stays signed in',
        `${person.name} was refused: ${status} ${JSON.stringify(body)}`,
      )
    else {
      this.log(`${person.name} is signed out: ${reason}`)
      const ended = this.#grants.get(String(this.#grantIds.get(used)))
      if (ended !== undefined) ended.ended ??= { atMs: time.nowMs, reason }
    }
  }

  /** Returns the documented reason for which a refresh may be refused. */
  #reasonToRefuse(person: Person, used: string, firstMs: number | undefined): string | undefined {
    const grant = this.#grants.get(String(this.#grantIds.get(used)))
    if (grant?.ended !== undefined) return grant.ended.reason
    const demotion = this.#demotions.get(person.name)
    if (demotion?.role === 'none') return 'role'
    if (this.#lostDataMs >= (grant?.begunMs ?? 0)) return 'lost data'
    if (firstMs !== undefined && time.nowMs - firstMs >= MIN_GRACE_MS - SKEW_MS) return 'grace'
    const { successor } = this.#refreshes.get(used) ?? {}
    if (successor !== undefined && this.#refreshes.has(successor)) return 'the successor was used'
    return undefined
  }

  #grantOf(person: Person): Grant | undefined {
    const token = person.wallet.tokens()?.access_token
    return token === undefined ? undefined : this.#grants.get(String(decodeJwt(token).gid))
  }

  #onMcp({ person, status, call, startedMs, detail }: Exchange, token: string): void {
    const { exp = 0, iat = 0, gid, scope } = decodeJwt(token)
    const grant = this.#grants.get(String(gid))
    const nowMs = time.nowMs + START_MS
    if (status === 401) {
      this.#figures.refusals++
      const isOver = nowMs >= exp * 1000 - SKEW_MS
      const isNew = nowMs < iat * 1000 + SKEW_MS
      const isLost = this.#lostDataMs >= (grant?.begunMs ?? 0)
      if (!isOver && !isNew && grant?.ended === undefined && !isLost)
        this.violation(
          'a user who did nothing wrong stays signed in',
          `${person.name} got 401 for a token of ${Math.round(nowMs / 1000 - iat)} s: ${detail}`,
        )
    }
    if (status === 403 && String(scope).includes(call === 'write' ? 'mcp:write' : 'mcp:read'))
      this.violation(
        'a user who did nothing wrong stays signed in',
        `${person.name} got 403 for ${call}: ${detail}`,
      )
    if (status !== 200) return
    const { ended } = grant ?? {}
    if (ended !== undefined && ['repeated', 'revoked'].includes(ended.reason)) {
      const endMs = ended.atMs + ACCESS_MS + 3 * SECOND
      if (startedMs > endMs && !this.#isStoreTroubled(startedMs - ACCESS_MS) && this.#lostDataMs < ended.atMs)
        this.violation(
          'a revoked user loses access in time',
          `${person.name} called ${call} ${Math.round((startedMs - ended.atMs) / 1000)} s later`,
        )
    }
    const demotion = this.#demotions.get(person.name)
    if (
      demotion !== undefined &&
      startedMs > demotion.atMs + 600 * SECOND + SKEW_MS &&
      (demotion.role === 'none' || call === 'write')
    )
      this.violation('a demoted user loses access in time', `${person.name} called ${call}`)
    if (startedMs + START_MS > exp * 1000 + SKEW_MS)
      this.violation(
        'no token works after its end',
        `${person.name} called ${call} with a token that had expired`,
      )
  }

  // What happens to the world.

  sleep(ms: number): Promise<void> {
    return sleep(ms)
  }

  /** Returns the link between two machines, and logs that a fault chose it. */
  linkOf(one: string, other: string) {
    this.log(`  ${one} – ${other}`)
    return network.link(one, other)
  }

  async #cause(fault: Fault): Promise<void> {
    if (!this.isRunning) return
    this.#figures.faults++
    this.log(`FAULT ${fault.number}: ${fault.kind}`)
    const trouble = { kind: fault.kind, fromMs: time.nowMs, toMs: Number.POSITIVE_INFINITY }
    this.#troubles.push(trouble)
    try {
      await FAULTS[fault.kind].run(this, new Random(fault.seed))
    } finally {
      trouble.toMs = time.nowMs
      this.log(`END of ${fault.number}: ${fault.kind}`)
    }
  }

  start(node: Node): void {
    if (node.isServing || this.#draining.has(node) || !this.isRunning) return
    this.#start(node)
  }

  #start(node: Node): void {
    // The last process was killed, unless it has shut down.
    const stats = node.telemetry?.stats()
    if (stats !== undefined) void this.#checkAudit(node, stats, true)
    this.#lastEndMs = time.nowMs
    node.start(this.configuration)
    this.log(`${node.name} has started`)
  }

  kill(node: Node): void {
    this.#checkNode(node)
    this.#draining.delete(node)
    node.kill()
    this.#lastEndMs = time.nowMs
    this.#killed.set(node.name, time.nowMs)
    this.log(`${node.name} was killed`)
  }

  async drain(node: Node): Promise<void> {
    if (!node.isServing) return
    this.#draining.add(node)
    await this.#shutDown(node).finally(() => this.#draining.delete(node))
  }

  async #shutDown(node: Node): Promise<void> {
    this.log(`${node.name} shuts down`)
    this.#lastEndMs = time.nowMs
    const { program } = node.machine
    const stats = await node.drain()
    if (!program.isAlive) return
    await node.close()
    // A client of Redis gives up a closing connection after 2 s.
    await sleep(3 * SECOND)
    this.#checkNode(node)
    if (stats !== undefined) {
      this.#checkLedger(node, stats)
      await this.#checkAudit(node, stats, false)
    }
    node.telemetry = undefined
    const timers = time.keeping(program)
    if (timers > 0) this.violation('no timer is left', `${node.name} has ${timers} after its shutdown`)
    node.machine.program.kill()
  }

  get hasLostData(): boolean {
    return this.#lostDataMs > 0
  }

  lostData(reason: string): void {
    this.#lostDataMs = time.nowMs
    this.log(reason)
  }

  async revoke(person: Person, what: 'grant' | 'user', node: Node): Promise<void> {
    const grant = this.#grantOf(person)
    if (grant === undefined || !node.isServing) return
    const { facade } = node
    const { sub } = person
    // From now on, the user may be signed out, and once the call has returned, must be.
    const before = grant.ended
    grant.ended ??= { atMs: Number.POSITIVE_INFINITY, reason: 'revoked' }
    try {
      await node.machine.program.run(async () => {
        if (what === 'grant') await facade?.grants.revoke(sub, grant.id)
        else await facade?.grants.revokeUser(sub)
      })
      this.log(`${person.name} was revoked (${what})`)
      for (const one of this.#grants.values())
        if (one === grant || (one.person === person && what !== 'grant' && one.begunMs < time.nowMs))
          if (one.ended === undefined || one.ended.atMs === Number.POSITIVE_INFINITY)
            one.ended = { atMs: time.nowMs, reason: 'revoked' }
    } catch (error) {
      this.log(`${person.name} could not be revoked: ${String(error)}`)
      grant.ended = before ?? { atMs: Number.POSITIVE_INFINITY, reason: 'revoked' }
    }
  }

  async changeRole(person: Person, role: Role): Promise<void> {
    const earlier = this.#roles.get(person.name)
    this.#roles.set(person.name, role)
    this.log(`${person.name} is ${role}`)
    if (role === 'editor') this.#demotions.delete(person.name)
    else this.#demotions.set(person.name, { atMs: time.nowMs, role })
    // A refresh that is on its way may still find that the person has left, and end the grant.
    if (earlier === 'none') {
      const grant = this.#grantOf(person)
      if (grant !== undefined) grant.ended ??= { atMs: Number.POSITIVE_INFINITY, reason: 'role' }
    }
  }

  #balance(session: string) {
    const serving = this.nodes.filter(({ isServing }) => isServing)
    const sticky = serving.find(({ machine }) => machine === network.affinity.get(session))
    if (sticky !== undefined) return sticky.listener
    return serving[this.#turn++ % Math.max(1, serving.length)]?.listener
  }

  /** Does something again and again until the end. */
  async #repeat(meanMs: number, action: () => Promise<void>): Promise<void> {
    while (this.isRunning) {
      await sleep(this.random.wait(meanMs))
      await action()
    }
  }

  async #attack(): Promise<void> {
    await this.attacker.attack((token) => {
      const { exp = 0, gid } = decodeJwt(token)
      const { ended } = this.#grants.get(String(gid)) ?? {}
      if (time.nowMs + START_MS > exp * 1000 + 2 * SKEW_MS) return true
      return (
        ended !== undefined &&
        ['repeated', 'revoked'].includes(ended.reason) &&
        time.nowMs > ended.atMs + ACCESS_MS + 3 * SECOND &&
        !this.#isStoreTroubled(time.nowMs - ACCESS_MS) &&
        this.#lostDataMs < ended.atMs
      )
    })
  }

  /** Polls a task until it has ended. */
  async #watch(task: Task): Promise<void> {
    const { person, id, call, begunMs, lastsMs } = task
    /** The first answer after the death of the node, since which no process has ended. */
    let suspectedMs = Number.POSITIVE_INFINITY
    const isOver = await person.machine.program.run(async () => {
      for (let poll = 0; poll < 120; poll++) {
        const isLost = this.#killed.has(this.#effects.get(call)?.process ?? '')
        await sleep(this.random.between(1, 2) * (isLost ? 3 : 30) * SECOND)
        const token = person.wallet.tokens()?.access_token
        if (token === undefined) {
          await person.check()
          continue
        }
        const askedMs = time.nowMs
        const reply = await person.send('tasks/get', { taskId: id }, token)
        if (reply?.status === 401) await person.check()
        const status = reply?.message?.result?.status
        const killedMs = this.#killed.get(this.#effects.get(call)?.process ?? '') ?? Number.POSITIVE_INFINITY
        if (status === 'failed' && !this.#isStoreTroubled(time.nowMs - 2 * MINUTE))
          this.#checkGrace(task, killedMs)
        if (['completed', 'failed', 'cancelled'].includes(status)) return true
        if (status === 'working' && askedMs > killedMs) {
          this.#figures.inGrace++
          if (this.#lastEndMs > suspectedMs) suspectedMs = Number.POSITIVE_INFINITY
          if (askedMs > suspectedMs + LOST_GRACE_MS + 3 * SECOND && !this.#isStoreTroubled(suspectedMs))
            this.violation('the tasks of a lost node fail after its grace', `${person.name}: ${id}`)
          if (askedMs > killedMs + MAX_ALIVE_MS) suspectedMs = Math.min(suspectedMs, time.nowMs)
        }
        if (reply?.message?.error !== undefined && reply.status === 200 && this.#lostDataMs > begunMs)
          return true
        // The answer is the one of another user after a new sign-in with another account.
        if (time.nowMs - begunMs > lastsMs + 15 * MINUTE) return false
      }
      return false
    })
    this.#tasks.delete(task)
    if (!isOver && this.#lostDataMs <= begunMs)
      this.violation(
        'every task reaches an end',
        `${person.name}: ${id} of ${Math.round(lastsMs / 1000)} s, begun ${formatTime(begunMs)}`,
      )
  }

  /** Checks that a task has not failed before its node was lost for long enough. */
  #checkGrace({ person, id, call }: Task, killedMs: number): void {
    const name = this.#effects.get(call)?.process
    const running = this.nodes.find((node) => node.name === name)
    const isDrained = running === undefined || !running.isServing
    if (killedMs === Number.POSITIVE_INFINITY && isDrained) return
    this.#figures.afterGrace++
    if (time.nowMs < killedMs + MIN_ALIVE_MS + LOST_GRACE_MS)
      this.violation('a task fails only after the grace of its node', `${person.name}: ${id} of ${name}`)
  }

  // What must be true.

  #checkStep(): void {
    for (const error of time.failures.splice(0))
      this.violation('no error is unhandled', error instanceof Error ? String(error.stack) : String(error))
    for (const [id, { count }] of this.#effects)
      if (count > 1) this.violation('a tool call runs once', `${id} ran ${count} times`)
    for (const { id, sub } of this.#calledIds.splice(0)) {
      const effect = this.#effects.get(id)
      if (effect === undefined) this.violation('a tool call runs once', `${id} never ran`)
      else if (effect.sub !== sub && sub !== '')
        this.violation('a tool call has the identity of its caller', `${id}: ${effect.sub} instead of ${sub}`)
    }
    for (const node of this.nodes) if (node.isServing) this.#checkNode(node)
    const keys = this.redis.data.size
    const people = this.people.length + 1
    if (keys > 2_000 * people) this.violation('each state has its bound', `Redis has ${keys} keys`)
    if (time.pending > 10_000) this.violation('each state has its bound', `${time.pending} timers wait`)
    if (network.sockets.size > 1_000)
      this.violation('each state has its bound', `${network.sockets.size} sockets are open`)
  }

  /** Compares the refusals of a process with its events, and its statistics with each other. */
  #checkNode(node: Node): void {
    if (!node.machine.program.isAlive) return
    const { mcp, token } = node.refusals
    const refused = node.countOf('kit.mcp.auth.refused') + node.countOf('kit.mcp.auth.invalid')
    if (refused < mcp)
      this.violation(
        'each refusal has an event',
        `${node.name}: ${mcp} responses, ${refused} events ${JSON.stringify([...node.events])}`,
      )
    const tokens = node.countOf('kit.authorization.token.refused')
    if (tokens < token)
      this.violation(
        'each refusal has an event',
        `${node.name}: ${token} responses of the token endpoint, ${tokens} events`,
      )
    const stats = node.telemetry?.stats()
    if (stats !== undefined) this.#checkSums(node, stats)
  }

  #checkSums(node: Node, { emitted, sampledOut, held, transports, audit }: TelemetryStats): void {
    for (const one of [...transports, ...(audit === undefined ? [] : [audit])]) {
      const { type, accepted, delivered, failed, dropped, pending } = one
      if (accepted !== delivered + failed + dropped + pending)
        this.violation('the ledger of every transport closes', `${node.name} ${type}: ${JSON.stringify(one)}`)
    }
    for (const { type, accepted } of transports)
      if (emitted !== accepted + sampledOut + held)
        this.violation(
          'the ledger of every transport closes',
          `${node.name} ${type}: ${emitted} emitted, ${accepted} accepted, ${sampledOut} sampled out, ${held} held`,
        )
  }

  /** Checks the telemetry of a process that has shut down. */
  #checkLedger(node: Node, stats: TelemetryStats): void {
    this.#checkSums(node, stats)
    const ids = this.#emitted.get(node.name) ?? []
    const stream = new Map<string, number>()
    for (const { fields } of this.redis.data.entriesOf(STREAM)) {
      const id = /"attributes":\{"id":"([^"]+)"/.exec(fields[fields.indexOf('event') + 1] ?? '')?.[1]
      if (id !== undefined) stream.set(id, (stream.get(id) ?? 0) + 1)
    }
    for (const { type, failed, dropped, pending } of stats.transports) {
      if (pending > 0 && !this.isRunning)
        this.violation(
          'every event has an outcome',
          `${node.name} ${type}: ${pending} are pending after the shutdown`,
        )
      const received = type.startsWith('otlp')
        ? this.collector.events
        : type === 'store-stream'
          ? stream
          : undefined
      if (received === undefined) continue
      const missing = ids.filter((id) => !received.has(id))
      const isStoreLost = type === 'store-stream' && this.hasLostData
      if (missing.length > failed + dropped + pending && !isStoreLost)
        this.violation(
          'what a transport has delivered has arrived',
          `${node.name} ${type}: ${missing.length} are missing, but only ${failed + dropped + pending} are lost: ${missing.slice(0, 3)}`,
        )
    }
  }

  async #end(): Promise<void> {
    this.log('The people go home')
    this.isRunning = false
    for (const service of Object.values(this.services)) Object.assign(service, { failure: 0, delayMs: 0 })
    this.redis.resume()
    this.redis.start()
    this.redis.refuse = 0
    this.redis.loseReplies = 0
    this.redis.loses = ''
    await time.run(time.nowMs + 3 * HOUR)
    for (const node of this.nodes) if (!node.isServing) this.#start(node)
    for (const { name } of this.people) this.#roles.set(name, 'editor')
    this.#demotions.clear()
    await time.run(time.nowMs + 30 * MINUTE)
    this.#checkStep()
    for (const { person, id } of this.#tasks)
      this.violation('every task reaches an end', `${person.name}: ${id}`)
    for (const { name, feed } of this.nodes) {
      const missing = feed?.missing() ?? []
      if (missing.length > 0)
        this.violation('every event arrives, or its loss is reported', `${name}: ${missing.slice(0, 3)}`)
    }
    // Everybody can work again.
    let working = 0
    for (const person of this.people)
      void person.check().then((isWorking) => {
        working++
        if (!isWorking) this.violation('everybody can work after the faults', person.name)
      })
    await time.run(time.nowMs + 20 * MINUTE)
    if (working < this.people.length)
      this.violation('every request is answered', `${this.people.length - working} people wait`)
    for (const person of [...this.people, this.attacker.person]) await soon(person.close())
    // Until sessions have ended.
    await time.run(time.nowMs + SESSION_MS + 10 * MINUTE)
    this.#checkStep()
    await this.#checkMemory()
    for (const node of this.nodes) {
      if (node.open.size > 0)
        this.violation(
          'every request is answered',
          `${node.name}: ${[...node.open].map(({ method, url }) => `${method} ${url}`)}`,
        )
      let isDrained = false
      void this.drain(node).then(() => {
        isDrained = true
      })
      await time.run(time.nowMs + 5 * MINUTE)
      if (!isDrained) this.violation('a node shuts down in time', node.name)
    }
    await time.run(time.nowMs + 10 * MINUTE)
    this.#checkStep()
    if (network.sockets.size > 0)
      this.violation(
        'no socket is left',
        [...network.sockets]
          .map(({ program, remoteAddress }) => `${program.machine.name} – ${remoteAddress}`)
          .join(', '),
      )
  }

  /**
   * Verifies what a process that has ended has written to its audit log. Its kill excuses one break: that the end is missing. The
   * other exceptions are those that its statistics name.
   */
  async #checkAudit(node: Node, { audit }: TelemetryStats, wasKilled: boolean): Promise<void> {
    const { name, machine, chains } = node
    const counted = [...node.events].filter(([event]) => AUDITED.test(event))
    const events = counted.reduce((sum, [, count]) => sum + count, 0)
    const text = readFileSync(join(this.#dir, `${machine.name}.log`), 'utf8')
    const lines = text.split('\n').filter((line) => line !== '' && !chains.has(chainOf(line)))
    for (const line of lines) chains.add(chainOf(line))
    this.#figures.chains++
    const { delivered = 0, failed = 0, dropped = 0, pending = 0, accepted = 0 } = audit ?? {}
    const { valid, firstBreak } = await verifyAudit(lines, AUDIT_SECRET)
    const isExcused =
      (firstBreak?.reason.includes('closing line of a chain is missing') === true &&
        (wasKilled || failed + pending > 0)) ||
      (firstBreak?.reason.includes('the log is empty') === true && delivered === 0) ||
      (firstBreak?.reason.includes('were lost before') === true && dropped > 0)
    if (!valid && !isExcused) this.violation('the audit log verifies', `${name}: ${firstBreak?.reason}`)
    if (lines.length < delivered || (!wasKilled && lines.length > delivered))
      this.violation('each audited event is a line', `${name}: ${lines.length} of ${delivered}`)
    // Apart from the opening and the closing line.
    if (accepted - (wasKilled ? 1 : 2) < events)
      this.violation('each event of the audit log is accepted', `${name}: ${accepted} of ${events}`)
  }
}

/** The names of events that the nodes audit. */
const AUDITED = /^(?:kit\.mcp\.auth|kit\.authorization|week)\./

/** The chain of a line of an audit log. */
function chainOf(line: string): string {
  return /"kit\.audit\.chain":"([^"]+)"/.exec(line)?.[1] ?? ''
}

/** Lets time pass until a promise has settled. */
async function soon<T>(promise: Promise<T>): Promise<T> {
  let isSettled = false
  const settled = promise.finally(() => {
    isSettled = true
  })
  settled.catch(() => undefined)
  for (let step = 0; !isSettled && step < 600; step++) {
    await time.run(time.nowMs + 100)
    await realTurn()
  }
  return await settled
}

function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  const part = (value: number) => String(value).padStart(2, '0')
  return `${Math.floor(seconds / 86_400)}d ${part(Math.floor(seconds / 3_600) % 24)}:${part(Math.floor(seconds / 60) % 60)}:${part(seconds % 60)}.${String(Math.floor(ms % 1000)).padStart(3, '0')}`
}

/** The ids of the effects in an OTLP request as JSON. */
function idsInOtlp(body: string): string[] {
  return [...body.matchAll(/\{"key":"id","value":\{"stringValue":"([^"]+)"/g)].map(([, id]) => String(id))
}
