/** The people of the world: models of real clients, by the quirks of docs/guides/clients.md, and one attacker. */
import { DpopSession } from '@modelcontextprotocol/client'
import {
  type Connection,
  type SignInClient,
  V1,
  V2_LEGACY,
  V2_MODERN,
  Wallet,
} from '../full/sign-in-clients.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import { modern } from '../support/mcp/wire.ts'
import { ORIGIN, RESOURCE } from './node.ts'
import { Random } from './random.ts'
import { Machine, sleep, time } from './time.ts'
import { Workday } from './workday.ts'

const TASKS = 'io.modelcontextprotocol/tasks'

/** How a client behaves. */
export interface Profile {
  readonly name: string
  readonly kind: SignInClient
  /** Processes that share their tokens, and refresh them at the same time. */
  readonly processes: number
  /** The client has a metadata document instead of registering. */
  readonly hasDocument: boolean
  /** It tries again at once after a failure. */
  readonly isImpatient: boolean
  /** It cancels some of its calls. */
  readonly cancels: boolean
  /** It keeps its connection, and so its event stream, between calls. */
  readonly staysConnected: boolean
  /** Its tokens are bound to a key. */
  readonly hasKey?: boolean
}

export const PROFILES: readonly Profile[] = [
  {
    name: 'claude',
    kind: V1,
    processes: 2,
    hasDocument: true,
    isImpatient: false,
    cancels: false,
    staysConnected: false,
  },
  {
    name: 'codex',
    kind: V2_LEGACY,
    processes: 3,
    hasDocument: false,
    isImpatient: true,
    cancels: false,
    staysConnected: false,
  },
  {
    name: 'cursor',
    kind: V1,
    processes: 1,
    hasDocument: false,
    isImpatient: true,
    cancels: true,
    staysConnected: true,
  },
  {
    name: 'chatgpt',
    kind: V2_LEGACY,
    processes: 1,
    hasDocument: true,
    isImpatient: false,
    cancels: false,
    staysConnected: true,
  },
  {
    name: 'editor',
    kind: V2_MODERN,
    processes: 2,
    hasDocument: true,
    isImpatient: false,
    cancels: true,
    staysConnected: true,
  },
  {
    name: 'agent',
    kind: V2_MODERN,
    processes: 2,
    hasDocument: false,
    isImpatient: true,
    cancels: false,
    staysConnected: false,
    hasKey: true,
  },
]

/** The client of the attacker. Other people have other clients. */
const MALLORY: Profile = {
  ...(PROFILES[1] as Profile),
  name: 'mallory',
  processes: 1,
  hasDocument: true,
}

/** The key of the clients that have one. */
const KEY = await DpopSession.create()

export const DOCUMENT_HOST = 'clients.example.com'

/** The paths of the metadata documents, and the documents. */
export function documents(): ReadonlyMap<string, object> {
  return new Map(
    [...PROFILES, MALLORY]
      .filter(({ hasDocument }) => hasDocument)
      .map(({ name }) => [
        `/${name}`,
        {
          client_id: `https://${DOCUMENT_HOST}/${name}`,
          client_name: name,
          redirect_uris: ['http://127.0.0.1:33418/callback'],
          token_endpoint_auth_method: 'none',
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
        },
      ]),
  )
}

/** One request of a person and what came of it. */
export interface Exchange {
  readonly person: Person
  readonly method: string
  readonly url: URL
  readonly form: URLSearchParams
  /** The JSON-RPC method or tool that was called. */
  readonly call: string
  readonly token: string | undefined
  /** The MCP session of the request. */
  readonly session: string | undefined
  /** A request with a DPoP proof. */
  readonly proven: RequestInit | undefined
  readonly startedMs: number
  /** The status, or 0 if the request failed. */
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
  readonly detail: string
}

/** The part of the world that people know. */
export interface Judge {
  exchanged(exchange: Exchange): void
  violation(invariant: string, detail: string): void
  log(line: string): void
  isTroubled(fromMs: number): boolean
  /** The ids of calls that must have run. */
  called(id: string, person: Person): void
  /** A call was denied. */
  denied(id: string, person: Person, startedMs: number): void
  taskBegan(task: Task): void
  /** A client has closed its connection, and its session stays. */
  sessionLeft(session: string, person: Person): void
  /** A consent page is open in the browser of a person. */
  consentShown(page: Page, person: Person): void
  readonly isRunning: boolean
  /** `true` after Redis has lost data. */
  readonly hasLostData: boolean
}

export interface Task {
  readonly id: string
  /** The id that the caller chose. */
  readonly call: string
  readonly person: Person
  readonly begunMs: number
  readonly lastsMs: number
}

class SharedWallet extends Wallet {
  readonly clientMetadataUrl?: string
  readonly #judge: (url: URL) => void

  constructor(
    person: Person,
    user: (url: URL, redirectUri: string) => Promise<URL>,
    judge: (url: URL) => void,
  ) {
    super(fetch, { user, ...(person.profile.hasKey === true && { dpop: KEY }) })
    this.#judge = judge
    if (person.profile.hasDocument) this.clientMetadataUrl = `https://${DOCUMENT_HOST}/${person.profile.name}`
  }

  override redirectToAuthorization(url: URL): void {
    this.#judge(url)
    super.redirectToAuthorization(url)
  }

  invalidateCredentials(scope: string): void {
    if (scope === 'all' || scope === 'client') this.saveClientInformation(undefined as never)
    if (scope === 'all' || scope === 'tokens') this.saveTokens(undefined as never)
  }
}

/** The options of the lives of all people. */
export interface Lives {
  readonly seed: number
  readonly workdayHours: number
}

/** A user with one client, which has one or more processes. */
export class Person {
  readonly name: string
  readonly profile: Profile
  readonly machine: Machine
  readonly random: Random
  readonly browser: Browser = new Browser()
  readonly judge: Judge
  readonly wallet: SharedWallet
  readonly #workday: Workday
  readonly #processes: ClientProcess[]
  #calls = 0
  signIns = 0
  calls = 0
  /** The claim `sub` of this person's tokens. */
  sub = ''
  /** The only sign-in that is in progress: the processes of a client show one browser. */
  #signingIn: Promise<void> | undefined

  constructor(name: string, profile: Profile, { seed, workdayHours }: Lives, judge: Judge) {
    this.name = name
    this.profile = profile
    this.judge = judge
    this.machine = new Machine(`person:${name}`)
    this.random = new Random(seed, name)
    this.#workday = new Workday(new Random(seed, name, 'day'), workdayHours)
    this.wallet = new SharedWallet(
      this,
      (url, redirectUri) => this.#consent(url, redirectUri),
      () => judge.log(`${name} must sign in`),
    )
    this.#processes = Array.from({ length: profile.processes }, () => new ClientProcess(this))
  }

  /** Starts the processes, which act until the world stops. */
  live(meanMs: number): void {
    this.machine.program.run(() => {
      for (const process of this.#processes) void this.#live(process, meanMs)
    })
  }

  async #live(process: ClientProcess, meanMs: number): Promise<void> {
    await sleep(this.random.wait(60_000))
    while (this.judge.isRunning) {
      const freeMs = this.#workday.untilWorkMs(time.nowMs)
      if (freeMs > 0) {
        // Some computers stay on, with their event streams.
        if (this.random.chance(0.5)) await process.close()
        await sleep(freeMs + this.random.wait(60_000))
        continue
      }
      // Several windows of an application wake up together, and find their common token expired.
      if (this.random.chance(0.4)) await Promise.all(this.#processes.map((one) => one.actSoon()))
      else await process.actSoon()
      await sleep(this.random.wait(meanMs))
    }
    await process.close()
  }

  /** Calls often for a while. */
  async burst(count: number): Promise<void> {
    await this.machine.program.run(async () => {
      const process = new ClientProcess(this)
      for (let call = 0; call < count && this.judge.isRunning; call++) await process.act('who')
      await process.close()
    })
  }

  /** The running clients that have an event stream in one of these sessions. */
  listeners(sessions: ReadonlySet<string>): ClientProcess[] {
    return this.#processes.filter(({ session }) => session !== undefined && sessions.has(session))
  }

  /** Returns `true` if the person can call a tool, after as many sign-ins as it takes. */
  async check(): Promise<boolean> {
    return await this.machine.program.run(async () => {
      const process = new ClientProcess(this)
      for (let attempt = 0; attempt < 5; attempt++) {
        if (await process.act('who')) {
          await process.close()
          return true
        }
        await sleep(5_000)
      }
      await process.close()
      return false
    })
  }

  async close(): Promise<void> {
    await this.machine.program.run(async () => {
      for (const process of this.#processes) await process.close()
    })
  }

  nextId(): string {
    return `${this.name}-${++this.#calls}`
  }

  /** Signs in once, however many processes ask for it. */
  async signIn(finish: () => Promise<void>): Promise<void> {
    if (this.#signingIn !== undefined) {
      await this.#signingIn.catch(() => undefined)
      return
    }
    this.#signingIn = finish()
    try {
      await this.#signingIn
      this.signIns++
      this.sub = String(this.wallet.claims.sub)
    } finally {
      this.#signingIn = undefined
    }
  }

  async #consent(url: URL, redirectUri: string): Promise<URL> {
    const isDone = (target: string): boolean => target.startsWith(redirectUri)
    let page = await this.browser.open(url.href, isDone)
    if (!isDone(page.url) && page.status === 200) this.judge.consentShown(page, this)
    await sleep(this.random.between(1_000, 20_000))
    if (!isDone(page.url) && page.status === 200) page = await this.browser.submit(page, 'allow', isDone)
    // The server does not know the client any more. The user removes the server, and adds it again.
    if (page.status === 400 && this.judge.hasLostData) this.wallet.invalidateCredentials('all')
    if (!isDone(page.url)) throw new Error(`the sign-in ended with ${page.status}`)
    return new URL(page.url)
  }

  /** The `fetch` of this person, which tells the judge what happened. */
  readonly fetch: typeof fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const startedMs = time.nowMs
    const form = init?.body instanceof URLSearchParams ? init.body : new URLSearchParams()
    const authorization = new Headers(init?.headers).get('authorization') ?? undefined
    const token = authorization?.replace(/^(?:Bearer|DPoP) /, '')
    const call = callIn(init?.body)
    const headers = new Headers(init?.headers)
    const session = headers.get('mcp-session-id') ?? undefined
    const proven =
      headers.has('dpop') && typeof init?.body === 'string'
        ? { method: 'POST', headers, body: init.body }
        : undefined
    const exchange = {
      person: this,
      method: init?.method ?? 'GET',
      url,
      form,
      token,
      session,
      proven,
      call,
      startedMs,
    }
    try {
      const response = await fetch(input, init)
      const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
      const isToken = url.pathname === '/token' || response.status >= 400
      const text = isJson && isToken ? await response.text() : undefined
      const body = text === undefined ? {} : (JSON.parse(text) as object)
      const detail = response.headers.get('www-authenticate') ?? ''
      const { status, headers } = response
      this.judge.exchanged({ ...exchange, status, body: { ...body }, detail })
      // A clone would end when the garbage collector removes it, which no seed decides.
      return text === undefined ? response : new Response(text, { status, headers })
    } catch (error) {
      const detail =
        init?.signal?.aborted === true ? 'aborted' : String((error as { cause?: unknown }).cause ?? error)
      this.judge.exchanged({ ...exchange, status: 0, body: {}, detail })
      throw error
    }
  }

  /** Sends one message of 2026-07-28 without an SDK. Resolves with its result or error, or `undefined` if the request failed. */
  async send(
    method: string,
    params: Record<string, unknown>,
    token: string,
    more: Record<string, string> = {},
  ): Promise<{ status: number; message: any } | undefined> {
    const { taskId } = params
    const _meta = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } } }
    const named = typeof taskId === 'string' ? { 'mcp-name': taskId } : {}
    const { headers = {}, body } = modern(
      method,
      { ...params, _meta },
      {
        ...named,
        ...(this.profile.hasKey === true
          ? {
              authorization: `DPoP ${token}`,
              dpop: await KEY.buildProof({ htm: 'POST', htu: RESOURCE, accessToken: token }),
            }
          : { authorization: `Bearer ${token}` }),
        ...more,
      },
    )
    try {
      const response = await this.fetch(RESOURCE, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: String(body),
        signal: AbortSignal.timeout(60_000),
      })
      const text = await response.text()
      const data = text.startsWith('{')
        ? text
        : (text
            .split('\n')
            .findLast((line) => line.startsWith('data: {'))
            ?.slice(6) ?? '{}')
      return { status: response.status, message: JSON.parse(data) }
    } catch {
      return undefined
    }
  }
}

function callIn(body: unknown): string {
  if (typeof body !== 'string') return ''
  try {
    const { method, params } = JSON.parse(body) as { method?: string; params?: { name?: string } }
    return method === 'tools/call' ? String(params?.name) : String(method)
  } catch {
    return ''
  }
}

type Action = 'who' | 'write' | 'slow' | 'job' | 'list'

const ACTIONS: readonly Action[] = ['who', 'who', 'who', 'write', 'write', 'slow', 'job', 'job', 'list']

/** A running client. */
export class ClientProcess {
  /** The number of times at which it has learned that the tools have changed. */
  heard = 0
  readonly #person: Person
  #connection: Connection | undefined
  #isAway = false
  #isBusy = false

  constructor(person: Person) {
    this.#person = person
  }

  /** The MCP session of the open connection. */
  get session(): string | undefined {
    return this.#isAway ? undefined : this.#connection?.client.transport?.sessionId
  }

  /** Does one thing within a few milliseconds, unless it is busy. */
  async actSoon(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    await sleep(this.#person.random.between(0, 20))
    await this.act()
    this.#isBusy = false
  }

  /** Does one thing. Returns `true` if it succeeded. */
  async act(action: Action = this.#person.random.pick(ACTIONS)): Promise<boolean> {
    const { profile, random, judge } = this.#person
    const attempts = profile.isImpatient ? 4 : 2
    for (let attempt = 0; attempt < attempts; attempt++) {
      const startedMs = time.nowMs
      try {
        await this.#connect()
        await this.#do(action)
        if (!profile.staysConnected) await this.close()
        return true
      } catch (error) {
        const { kind } = profile
        await this.close()
        if (error instanceof kind.Unauthorized) continue
        judge.log(`${this.#person.name} ${action}: ${String(error).slice(0, 120)}`)
        const isFinal = attempt === attempts - 1
        if (isFinal && !judge.isTroubled(startedMs)) return false
      }
      await sleep(profile.isImpatient ? 1 : random.between(1_000, 20_000))
    }
    return false
  }

  async #connect(): Promise<void> {
    if (this.#connection !== undefined && !this.#isAway) return
    await this.close()
    const person = this.#person
    const { kind } = person.profile
    const connection = kind.open(RESOURCE, { fetch: person.fetch, provider: person.wallet })
    this.#connection = connection
    this.#isAway = false
    connection.client.onerror = () => undefined
    connection.client.fallbackNotificationHandler = async ({ method }: { method: string }) => {
      if (method === 'notifications/tools/list_changed') this.heard++
    }
    connection.client.onclose = () => {
      if (this.#connection === connection) this.#isAway = true
    }
    try {
      await connection.connect()
    } catch (error) {
      if (error instanceof kind.Unauthorized)
        await person.signIn(async () => await connection.finishAuth(await person.wallet.signIn()))
      throw error
    }
  }

  async #do(action: Action): Promise<void> {
    const person = this.#person
    const { random, judge, profile } = person
    const client = this.#connection?.client
    person.calls++
    const id = person.nextId()
    switch (action) {
      case 'list':
        await client.listTools()
        return
      case 'who': {
        const { content } = await client.callTool({ name: 'who', arguments: {} })
        const text = content?.[0]?.text
        if (text !== person.sub && person.sub !== '')
          judge.violation(
            'a call has the identity of its caller',
            `${person.name} is ${text} instead of ${person.sub}`,
          )
        return
      }
      case 'write': {
        if (!String(person.wallet.claims.scope).includes('mcp:write')) return
        const startedMs = time.nowMs
        const { content, isError } = await client.callTool({ name: 'write', arguments: { id } })
        if (isError === true) judge.denied(id, person, startedMs)
        if (isError !== true && content?.[0]?.text === id) judge.called(id, person)
        return
      }
      case 'slow': {
        const ms = Math.floor(random.between(100, 40_000))
        const cancels = profile.cancels && random.chance(0.5)
        const signal = cancels ? AbortSignal.timeout(ms / 2) : undefined
        const call = { name: 'slow', arguments: { id, ms } }
        const options = { ...(signal !== undefined && { signal }), timeout: 120_000 }
        const parameters = profile.kind === V1 ? [call, undefined, options] : [call, options]
        try {
          const { isError } = await client.callTool(...parameters)
          if (isError !== true) judge.called(id, person)
        } catch (error) {
          if (signal?.aborted !== true) throw error
        }
        return
      }
      case 'job': {
        if (profile.kind === V1) return
        const ms = Math.floor(random.between(1_000, 900_000))
        const begunMs = time.nowMs
        const token = person.wallet.tokens()?.access_token
        if (token === undefined) return
        const reply = await person.send('tools/call', { name: 'job', arguments: { id, ms } }, token, {
          'mcp-name': 'job',
        })
        const taskId = reply?.message?.result?.taskId
        if (typeof taskId === 'string')
          judge.taskBegan({ id: taskId, call: id, person, begunMs, lastsMs: ms })
        return
      }
    }
  }

  async close(): Promise<void> {
    const connection = this.#connection
    const session: unknown = this.session
    this.#connection = undefined
    if (typeof session === 'string') this.#person.judge.sessionLeft(session, this.#person)
    await connection?.client.close().catch(() => undefined)
  }
}

/** Something that the attacker has seen. */
export interface Loot {
  readonly kind: 'access' | 'refresh' | 'code' | 'session' | 'task'
  readonly value: string
  readonly owner: Person
  readonly atMs: number
}

/** A user who sees what others send, and uses it. */
export class Attacker {
  readonly person: Person
  readonly #loot = new Map<Loot['kind'], Loot[]>()
  attempts = 0

  constructor(lives: Lives, judge: Judge) {
    this.person = new Person(MALLORY.name, MALLORY, lives, judge)
  }

  see(loot: Loot): void {
    if (loot.owner === this.person) return
    const earlier = this.#loot.get(loot.kind) ?? []
    this.#loot.set(loot.kind, [...earlier.slice(-50), loot])
  }

  /** Agrees to the consent page of another user, in the own browser. */
  async agree(page: Page, owner: Person): Promise<void> {
    const { machine, judge } = this.person
    this.attempts++
    await machine.program.run(async () => {
      // A redirect means that the consent was accepted, also if its target refuses this browser.
      const reply = await new Browser().submit(page, 'allow', () => true).catch(() => undefined)
      if (reply !== undefined && reply.status < 400)
        judge.violation(
          'nothing works for anybody else, after its end, or twice',
          `the consent of ${owner.name}: ${reply.status} ${reply.url}`,
        )
    })
  }

  /** Sends a whole token request of another user once more. Resolves with the status, or `undefined` if the request failed. */
  async replay(form: string, owner: Person): Promise<number | undefined> {
    const { machine, judge } = this.person
    this.attempts++
    return await machine.program.run(async () => {
      const body = new URLSearchParams(form)
      const response = await raw(`${ORIGIN}/token`, { method: 'POST', body })
      if (response?.status === 200)
        judge.violation(
          'nothing works for anybody else, after its end, or twice',
          `the ${body.get('grant_type')} of ${owner.name}`,
        )
      await response?.body?.cancel()
      return response?.status
    })
  }

  /** Sends a whole request of another user once more, or its token without the proof. */
  async repeat(proven: RequestInit, token: string, owner: Person): Promise<void> {
    const { machine, judge, random } = this.person
    this.attempts++
    const headers = new Headers(proven.headers)
    if (random.chance(0.5)) {
      headers.set('authorization', `Bearer ${token}`)
      headers.delete('dpop')
    }
    const response = await machine.program.run(() => raw(RESOURCE, { ...proven, headers }))
    if (response?.status === 200)
      judge.violation(
        'nothing works for anybody else, after its end, or twice',
        `a request of ${owner.name} with ${headers.has('dpop') ? 'a proof' : 'its token'}`,
      )
    await response?.body?.cancel()
  }

  /** Tries one thing that must fail. `isOver` tells which tokens must not work any more. */
  async attack(isOver: (token: string) => boolean): Promise<void> {
    const { person } = this
    const { random, judge } = person
    if (this.#loot.size === 0 || person.wallet.tokens() === undefined) return
    const { kind, value, owner } = random.pick(random.pick([...this.#loot.values()]))
    const own = String(person.wallet.tokens()?.access_token)
    const ownClient = String(person.wallet.clientInformation()?.client_id)
    const fail = (what: string, detail: unknown): void =>
      judge.violation(
        'nothing works for anybody else, after its end, or twice',
        `${what} of ${owner.name}: ${JSON.stringify(detail).slice(0, 300)}`,
      )
    this.attempts++
    await person.machine.program.run(async () => {
      if (kind === 'access') {
        if (!isOver(value)) return
        const reply = await person.send('tools/call', { name: 'who', arguments: {} }, value, {
          'mcp-name': 'who',
        })
        if (reply?.status === 200) fail('an access token that is over', reply)
      } else if (kind === 'session') {
        const response = await list(value, own)
        if (response?.status === 200) fail('a session', await response.text())
        else await response?.body?.cancel()
      } else if (kind === 'task') {
        const reply = await person.send('tasks/get', { taskId: value }, own)
        if (reply?.message?.result !== undefined) fail('a task', reply)
      } else {
        const form: Record<string, string> =
          kind === 'code'
            ? {
                grant_type: 'authorization_code',
                code: value,
                redirect_uri: 'http://127.0.0.1:33418/callback',
                code_verifier: 'x'.repeat(43),
              }
            : { grant_type: 'refresh_token', refresh_token: value }
        const response = await raw(`${ORIGIN}/token`, {
          method: 'POST',
          body: new URLSearchParams({ ...form, client_id: ownClient }),
        })
        if (response?.status === 200) fail(kind, await response.text())
        else await response?.body?.cancel()
      }
    })
  }
}

/** Lists the tools in a session. */
export function list(session: string, token: string): Promise<Response | undefined> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${token}`,
    'mcp-session-id': session,
    'mcp-protocol-version': '2025-11-25',
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
  return raw(RESOURCE, { method: 'POST', headers, body })
}

async function raw(url: string, init: RequestInit): Promise<Response | undefined> {
  try {
    return await fetch(url, { ...init, signal: AbortSignal.timeout(60_000) })
  } catch {
    return undefined
  }
}
