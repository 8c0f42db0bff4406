import { attributeText } from './attribute-text.ts'
import { operationOf, whoOf } from './console-event.ts'
import type { Entry, Tone } from './event-kind.ts'
import { factsOf, factText } from './facts.ts'
import { nextStep, parameterOf, type Stage } from './next-step.ts'
import { isForbidden, signInAttributes } from './sign-in-kind.ts'

/** One step of a client, or several equal ones in a row. */
export interface Step {
  /** The event that the details show. */
  entry: Entry
  word: string
  title: string
  tone: Tone
  hint: string | undefined
  facts: readonly string[]
  /** The number of equal steps in a row. */
  count: number
}

/** Everything that one client has done: one sign-in, and the calls after it. */
export interface Story {
  readonly id: number
  readonly startedAt: string
  name: string
  user: string | undefined
  stage: Stage
  /** The time of the event that led to this stage. Events of two processes do not arrive in the order of their times. */
  stageAt: string
  /** The step that the client has to take next, or `undefined` if it is signed in. */
  next: string | undefined
  readonly steps: Step[]
  /** The number of steps that were removed. */
  dropped: number
}

/** The limits of what the page keeps. */
export const MAX_STORIES = 30
export const MAX_STEPS = 80
/** The maximum number of keys by which a story is found, and of requests whose events are connected. */
const MAX_KEYS = 1000
/** The number of first steps that are kept when a story is long. */
const FIRST_STEPS = 20

/** Events that the steps of requests include. */
const REQUEST_EVENTS =
  /^kit\.mcp\.(?:auth\.(?:accepted|refused|unavailable)|request\.failed|request\.completed|tool\.(?:completed|failed))$/

/** Pages of the sign-in of `authorizationFacade`. A browser opens them, not a client, and events show their outcome. */
const SIGN_IN_PAGE = /\/signin\/(?:callback|[\w-]{1,64}\/consent)$/

/** Stages after which a request without a token begins a new story. */
const ENDED: readonly Stage[] = ['called', 'denied', 'not-signed-in', 'token-refused']

type Attributes = Readonly<Record<string, unknown>>

/** A request, and its telemetry events, which arrive before or after it. */
interface RequestRecord {
  events: Entry[]
  story?: Story
  step?: Step
}

/** Sorts events into one story for each client. Independent of the page, and bounded in memory. */
export class Stories {
  #stories: Story[] = []
  /** By `token:…`, `client:…`, `session:…`, and `from:…`, least recently set first. */
  readonly #byKey = new Map<string, Story>()
  readonly #requests = new Map<string, RequestRecord>()
  readonly #issuer: () => string | undefined
  #count = 0

  /** @param issuer returns the URL of the authorization server of `dev` */
  constructor(issuer: () => string | undefined = () => undefined) {
    this.#issuer = issuer
  }

  /** Newest first. */
  get all(): readonly Story[] {
    return this.#stories
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const { name, request } = entry.event
      if (name === 'dev.request') this.#addRequest(entry)
      else if (name.startsWith('kit.authorization.')) this.#addSignIn(entry)
      else if (request !== undefined && REQUEST_EVENTS.test(name)) this.#addDetail(entry, request.id)
    }
  }

  clear(): void {
    this.#stories = []
    this.#byKey.clear()
    this.#requests.clear()
  }

  #addRequest(entry: Entry): void {
    const { attributes = {}, request } = entry.event
    if (SIGN_IN_PAGE.test(attributeText(attributes['url.path']))) return
    const record = this.#recordOf(request?.id ?? `event-${entry.event.number}`)
    const stage = stageOf(attributes)
    const client = request?.unverified?.client_id
    const story = this.#storyOf(entry, attributes, client, stage)
    if (story === undefined) return
    this.#link(story, attributes, client)
    story.name = nameOf(story, attributes)
    const step = stepOf(entry)
    if (stage === 'called') step.word = 'call'
    // The name of the story says where a preflight comes from.
    if (attributes.preflight === true)
      step.title = step.title.replace(` from ${attributeText(attributes.origin)}`, '')
    if (stage === 'challenged' || stage === 'refused' || stage === 'scopes') {
      step.word = attributeText(attributes['http.response.status_code'])
      step.title = parameterOf(attributeText(attributes.challenge), 'error_description') ?? step.title
      step.tone = stage === 'challenged' ? 'plain' : 'bad'
    }
    // Telemetry names the reason. Without it, every claim may be the cause.
    if (stage === 'refused')
      step.facts = factsOf({ ...entry.event, attributes: { reason: 'invalid' } }).map(factText)
    const kept = this.#push(story, step)
    record.story = story
    record.step = kept
    if (stage !== undefined) this.#enter(story, stage, entry)
    for (const detail of record.events) this.#detail(story, kept, detail)
    record.events = []
  }

  /** Adds a telemetry event to the step of its request. */
  #addDetail(entry: Entry, id: string): void {
    const record = this.#recordOf(id)
    if (record.story !== undefined && record.step !== undefined)
      this.#detail(record.story, record.step, entry)
    else if (record.events.length < 8) record.events.push(entry)
  }

  #detail(story: Story, step: Step, entry: Entry): void {
    const { event, kind } = entry
    const user = whoOf(event)
    if (user !== '') story.user = user
    const operation = operationOf(event)
    switch (event.name) {
      case 'kit.mcp.auth.refused':
      case 'kit.mcp.auth.unavailable':
      case 'kit.mcp.request.failed':
        Object.assign(step, { entry, title: kind.title, tone: kind.tone, hint: kind.hint })
        step.facts = (kind.facts ?? []).map(factText)
        if (event.attributes?.reason === 'missing') step.tone = 'plain'
        break
      case 'kit.mcp.tool.failed':
        Object.assign(step, { entry, title: kind.title, tone: 'bad' })
        break
      default:
        if (operation !== undefined && step.tone !== 'bad') {
          step.title = operation
          if (event.name === 'kit.mcp.request.completed') step.title = kind.title
        }
    }
    this.#merge(story, step)
  }

  #addSignIn(entry: Entry): void {
    const { name } = entry.event
    const attributes = signInAttributes(entry.event.attributes ?? {})
    const word = name.slice('kit.authorization.'.length)
    const stage = Object.hasOwn(SIGN_IN_STAGES, word) ? SIGN_IN_STAGES[word] : undefined
    const client = typeof attributes.client_id === 'string' ? attributes.client_id : undefined
    const isRegistration = stage === 'registered' || stage === 'not-registered'
    const story =
      (client === undefined ? undefined : this.#byKey.get(`client:${client}`)) ??
      (isRegistration || client === undefined ? this.#unfinished(attributes) : undefined) ??
      (isSender(attributes) ? undefined : this.#latest(client)) ??
      this.#begin(entry)
    this.#link(
      story,
      stage === 'page' || stage === 'consented' ? { token: attributes.token } : attributes,
      client,
    )
    story.name = nameOf(story, attributes)
    if (typeof attributes.user === 'string') story.user = attributes.user
    this.#push(story, stepOf(entry))
    if (stage !== undefined) this.#enter(story, stage, entry)
  }

  /** Finds the story of a request to the server, or begins one. */
  #storyOf(
    entry: Entry,
    attributes: Attributes,
    client: string | undefined,
    stage: Stage | undefined,
  ): Story | undefined {
    const { token } = attributes
    const known =
      (token === undefined ? undefined : this.#byKey.get(`token:${attributeText(token)}`)) ??
      (client === undefined ? undefined : this.#byKey.get(`client:${client}`)) ??
      this.#byKey.get(`session:${attributeText(attributes['mcp.session.id'])}`)
    if (known !== undefined) return known
    const near = this.#byKey.get(fromOf(attributes))
    if (attributes.server === 'authorization') {
      // Servers fetch this metadata too, at the first token. It is not a step of their client.
      const begins = near === undefined || ENDED.includes(near.stage) || near.stage === 'token'
      return begins ? undefined : near
    }
    const isNew =
      near === undefined || (token === undefined && stage === 'challenged' && ENDED.includes(near.stage))
    return isNew ? this.#begin(entry) : near
  }

  /**
   * Returns the latest story whose sign-in is not finished, for an event that does not say who has sent the request. A story of
   * another client is not returned.
   */
  #latest(client: string | undefined): Story | undefined {
    const known = new Set(
      [...this.#byKey].flatMap(([key, story]) => (key.startsWith('client:') ? [story] : [])),
    )
    return this.#stories.find(
      (story) => !ENDED.includes(story.stage) && (client === undefined || !known.has(story)),
    )
  }

  /** Returns the story of the same address and program, if its sign-in is not finished. */
  #unfinished(attributes: Attributes): Story | undefined {
    const near = this.#byKey.get(fromOf(attributes))
    return near === undefined || ENDED.includes(near.stage) ? undefined : near
  }

  #begin({ event }: Entry): Story {
    const story: Story = {
      id: ++this.#count,
      startedAt: event.time,
      name: 'a client',
      user: undefined,
      stage: 'begun',
      stageAt: '',
      next: undefined,
      steps: [],
      dropped: 0,
    }
    this.#stories = [story, ...this.#stories]
    const gone = this.#stories.splice(MAX_STORIES)
    if (gone.length > 0) for (const [key, one] of this.#byKey) if (gone.includes(one)) this.#byKey.delete(key)
    return story
  }

  #link(story: Story, attributes: Attributes, client: string | undefined): void {
    const session = attributes['mcp.session.id']
    const keys = [
      ...(isSender(attributes) ? [fromOf(attributes)] : []),
      ...(attributes.token === undefined ? [] : [`token:${attributeText(attributes.token)}`]),
      ...(client === undefined ? [] : [`client:${client}`]),
      ...(session === undefined ? [] : [`session:${attributeText(session)}`]),
    ]
    for (const key of keys) {
      this.#byKey.delete(key)
      this.#byKey.set(key, story)
    }
    dropFirst(this.#byKey, MAX_KEYS)
  }

  #enter(story: Story, stage: Stage, { event }: Entry): void {
    if (event.time < story.stageAt) return
    // Metadata that is fetched again, or preflights, are not a step back.
    if ((stage === 'metadata' || stage === 'issuer-metadata') && !EARLY.includes(story.stage)) return
    story.stage = stage
    story.stageAt = event.time
    story.next = nextStep(stage, event.attributes ?? {}, this.#issuer())
  }

  /** Inserts a step by its time: the response of a stream ends later than those of the requests after it. */
  #push(story: Story, step: Step): Step {
    const { time } = step.entry.event
    const at = story.steps.findLastIndex(({ entry }) => entry.event.time <= time) + 1
    const before = story.steps[at - 1]
    if (before !== undefined && isSame(before, step)) {
      before.count++
      before.entry = step.entry
      return before
    }
    story.steps.splice(at, 0, step)
    if (story.steps.length > MAX_STEPS) {
      story.steps.splice(FIRST_STEPS, 1)
      story.dropped++
    }
    return step
  }

  /** Joins a step with an equal one before it. */
  #merge(story: Story, step: Step): void {
    const at = story.steps.indexOf(step)
    const previous = story.steps[at - 1]
    if (at < 1 || previous === undefined || !isSame(previous, step)) return
    previous.count += step.count
    previous.entry = step.entry
    story.steps.splice(at, 1)
    for (const record of this.#requests.values()) if (record.step === step) record.step = previous
  }

  #recordOf(id: string): RequestRecord {
    let record = this.#requests.get(id)
    if (record === undefined) {
      record = { events: [] }
      this.#requests.set(id, record)
      dropFirst(this.#requests, MAX_KEYS)
    }
    return record
  }
}

const EARLY: readonly Stage[] = ['begun', 'challenged', 'metadata', 'issuer-metadata']

const SIGN_IN_STAGES: Readonly<Record<string, Stage>> = {
  'client.registered': 'registered',
  'client.refused': 'not-registered',
  'consent.shown': 'page',
  'consent.given': 'consented',
  'consent.denied': 'denied',
  'refresh.reused': 'token-refused',
  'request.refused': 'not-authorized',
  'signin.refused': 'not-signed-in',
  'token.issued': 'token',
  'token.refused': 'token-refused',
}

/** Returns the stage that a request reaches, or `undefined` if it does not change the stage. */
function stageOf(attributes: Attributes): Stage | undefined {
  const status = Number(attributeText(attributes['http.response.status_code']))
  const path = attributeText(attributes['url.path'])
  if (attributes.preflight === true) return status >= 400 ? 'forbidden' : undefined
  if (path.startsWith('/.well-known/')) {
    if (attributes.server === 'authorization') return status === 200 ? 'issuer-metadata' : undefined
    if (path.startsWith('/.well-known/oauth-protected-resource'))
      return status === 200 ? 'metadata' : 'no-metadata'
    return undefined
  }
  if (isForbidden(attributes)) return 'forbidden'
  if (status === 401) return attributes.token === undefined ? 'challenged' : 'refused'
  if (status === 403 && attributeText(attributes.challenge).includes('insufficient_scope')) return 'scopes'
  return status < 400 && attributes.token !== undefined ? 'called' : undefined
}

function stepOf(entry: Entry): Step {
  const { kind } = entry
  const facts = (kind.facts ?? []).map(factText)
  return { entry, word: kind.word, title: kind.title, tone: kind.tone, hint: kind.hint, facts, count: 1 }
}

function isSame(a: Step, b: Step): boolean {
  return a.word === b.word && a.title === b.title && a.tone === b.tone && a.facts.join() === b.facts.join()
}

/** Returns `true` if the attributes of an event say who has sent the request. */
function isSender(attributes: Attributes): boolean {
  return attributes['user_agent.original'] !== undefined || attributes['client.address'] !== undefined
}

/** Returns the key of a client before its token is known. */
function fromOf(attributes: Attributes): string {
  const { origin, 'client.address': address, 'user_agent.original': agent } = attributes
  // A server that listens on IPv6 sees IPv4 addresses in another form.
  const plain = attributeText(address).replace(/^::ffff:|^::1$/, '')
  return `from:${plain === '' ? '127.0.0.1' : plain} ${attributeText(agent)} ${attributeText(origin)}`
}

/** Returns the best known name: the one of the registration, or the first word of the user agent. */
function nameOf(story: Story, { client_name: name, client_id: id, ...attributes }: Attributes): string {
  if (typeof name === 'string') return name
  if (story.name !== 'a client') return story.name
  const { origin, 'user_agent.original': agent } = attributes
  if (typeof origin === 'string') return `page of ${origin}`
  return typeof agent === 'string' ? (agent.split(' ', 1)[0] as string) : attributeText(id ?? story.name)
}

function dropFirst(map: Map<string, unknown>, max: number): void {
  while (map.size > max) map.delete(map.keys().next().value as string)
}
