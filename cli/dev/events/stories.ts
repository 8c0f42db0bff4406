import { LRUCache } from 'lru-cache'
import { type Attributes, attributeText, whoOf } from './event.ts'
import { OUTCOMES, type Outcome, type Tone } from './kinds.ts'
import { type EventRow, type Expected, factsOf, type Row } from './row.ts'
import { nextStep, parameterOf, STATES, type Stage } from './stages.ts'

type Mutable<Type> = { -readonly [Name in keyof Type]: Type[Name] }

/** A step of a client, or several equal ones in a row. */
interface Step extends Mutable<Row> {
  count: number
}

const NAME_SOURCES = ['nothing', 'id', 'request', 'registration'] as const
type NameSource = (typeof NAME_SOURCES)[number]

/** The part of a telemetry event that the step of its request shows. The event itself can be large. */
interface Detail extends Step {
  readonly name: string
  readonly user: string
  readonly operation: string | undefined
  readonly outcome: Outcome
}

/** A request, and its telemetry events, which arrive before or after it. */
interface RequestRecord {
  details: Detail[]
  story?: Story
  step?: Step
  /** The most important outcome so far. */
  outcome?: Outcome
}

/** The limits of what is kept. */
export const MAX_STORIES = 30
export const MAX_STEPS = 80
/** The maximum number of keys by which a story is found, and of requests whose events are connected. */
const MAX_KEYS = 1000
/** The number of first steps that are kept when a story is long. */
const FIRST_STEPS = 20

/** The key of the story of `mcp-gatekit doctor`. */
const PROBES = 'probes'

/** Pages of the sign-in of `authorizationFacade`. A browser opens them, not a client, and events show their outcome. */
const SIGN_IN_PAGE = /\/signin\/(?:callback|[\w-]{1,64}\/consent)$/

/** Stages after which a request without a token begins a new story. */
const ENDED: readonly Stage[] = ['called', 'denied', 'not-signed-in', 'token-refused']
const EARLY: readonly Stage[] = ['begun', 'challenged', 'metadata', 'issuer-metadata']

/**
 * Sorts events into one story for each client. Bounded in memory. The server, its telemetry, and the authorization server of `dev`
 * send their events separately, so those of one of them can arrive before earlier ones of another.
 */
export class Stories {
  #stories: Story[] = []
  #changed = new Set<Story>()
  /** By `token:…`, `client:…`, `session:…`, and `from:…`. */
  readonly #byKey = new LRUCache<string, Story>({ max: MAX_KEYS })
  readonly #requests = new LRUCache<string, RequestRecord>({ max: MAX_KEYS })
  readonly #issuer: string | undefined
  #count = 0

  /** @param issuer the URL of the authorization server of `dev` */
  constructor(issuer: string | undefined) {
    this.#issuer = issuer
  }

  /** Newest first. */
  get all(): readonly Story[] {
    return this.#stories
  }

  /** Returns the stories that have changed since the last call, oldest first. */
  takeChanged(): readonly Story[] {
    const changed = this.#stories.filter((story) => this.#changed.has(story)).reverse()
    this.#changed = new Set()
    return changed
  }

  /** @param expected the metadata of the server at the time of the event */
  add(row: EventRow, expected: Expected): void {
    const { outcome, event } = row
    const { name, request } = event
    if (name === 'dev.request') this.#addRequest(row, expected)
    else if (name.startsWith('kit.authorization.')) this.#addSignIn(row)
    else if (request !== undefined && outcome !== undefined) this.#addDetail(row, outcome, request.id)
  }

  #addRequest(row: EventRow, expected: Expected): void {
    const { event, stage } = row
    const { attributes = {}, request } = event
    if (SIGN_IN_PAGE.test(attributeText(attributes['url.path']))) return
    const client = request?.unverified?.client_id
    const story = this.#storyOf(row, attributes, client)
    if (story === undefined) return
    const step = stepOf(row)
    if (stage === 'called') step.word = 'call'
    // The name of the story says where a preflight comes from.
    if (attributes.preflight === true)
      step.title = step.title.replace(` from ${attributeText(attributes.origin)}`, '')
    if (stage === 'challenged' || stage === 'refused' || stage === 'scopes') {
      step.word = attributeText(attributes['http.response.status_code'])
      step.title = parameterOf(attributes.challenge, 'error_description') ?? step.title
      step.tone = stage === 'challenged' ? 'plain' : 'bad'
    }
    // Telemetry names the reason. Without it, every claim may be the cause.
    if (stage === 'refused') step.facts = factsOf(event, expected, 'invalid')
    const record = this.#recordOf(request?.id ?? `event-${row.number}`)
    record.story = story
    this.#link(story, attributes, client)
    record.step = this.#continue(story, row, step, attributes)
    for (const detail of record.details) this.#detail(story, record.step, detail, record)
    record.details = []
  }

  /** Adds a telemetry event to the step of its request. */
  #addDetail(row: EventRow, outcome: Outcome, id: string): void {
    const { event, operation } = row
    const detail = { ...stepOf(row), name: event.name, user: whoOf(event), operation, outcome }
    const record = this.#recordOf(id)
    const { story, step, details } = record
    if (story !== undefined && step !== undefined) this.#detail(story, step, detail, record)
    else if (details.length < 8) details.push(detail)
  }

  /** Shows an event in the step of its request, unless the step shows a more important one. */
  #detail(story: Story, step: Step, detail: Detail, record: RequestRecord): void {
    const { name, user, operation, outcome, number, time, word, title, tone, hint, facts } = detail
    story.user = user || story.user
    const isShown = rankOf(outcome) >= rankOf(record.outcome)
    if (isShown && rankOf(outcome) >= rankOf('asked')) {
      record.outcome = outcome
      Object.assign(step, { number, time, title, tone, hint, facts })
      // A status is shown instead of a word.
      if (step.word === 'call' || step.word === 'request') step.word = word
    } else if (isShown && operation !== undefined && step.tone !== 'bad')
      step.title = name === 'kit.mcp.request.completed' ? title : operation
    this.#merge(story, step)
    this.#changed.add(story)
  }

  #addSignIn(row: EventRow): void {
    const { stage, event } = row
    const { attributes = {} } = event
    const client = typeof attributes.client === 'string' ? attributes.client : undefined
    const isRegistration = stage === 'registered' || stage === 'not-registered'
    const near = this.#byKey.get(fromOf(attributes))
    const isNear = near !== undefined && !hasEnded(near, event.time)
    const story =
      (row.isProbe ? this.#probes(row) : undefined) ??
      this.#find(keysOf({}, client)) ??
      (isNear && (isRegistration || client === undefined) ? near : undefined) ??
      (isSender(attributes) ? undefined : this.#latest(client, event.time)) ??
      this.#begin(row)
    // A browser opens the pages, not the client.
    const isPage = stage === 'page' || stage === 'consented'
    this.#link(story, isPage ? { token: attributes.token } : attributes, client)
    this.#continue(story, row, stepOf(row), attributes)
    if (typeof attributes.subject === 'string') story.user = attributeText(attributes.subject)
  }

  /** Finds the story of a request, or begins one. Returns `undefined` for a request for metadata that belongs to no story. */
  #storyOf(row: EventRow, attributes: Attributes, client: unknown): Story | undefined {
    const known = row.isProbe ? this.#probes(row) : this.#find(keysOf(attributes, client))
    if (known !== undefined) return known
    const { time } = row.event
    const near = this.#byKey.get(fromOf(attributes))
    const isOver = near === undefined || hasEnded(near, time)
    // Servers fetch this metadata too, at the first token. It is not a step of their client.
    if (attributes.server === 'authorization')
      return isOver || (near.stage === 'token' && time >= near.stageAt) ? undefined : near
    if (!isOver) return near
    const isNew = near === undefined || (attributes.token === undefined && row.stage === 'challenged')
    return isNew ? (this.#begunWithout(time) ?? this.#begin(row)) : near
  }

  /** Returns the latest story that has a later event, and of which no event says who has sent it. */
  #begunWithout(time: string): Story | undefined {
    return this.#stories.find(({ hasSender, steps }) => !hasSender && steps.some((step) => step.time > time))
  }

  /** Returns the one story of the probes of `mcp-gatekit doctor`. */
  #probes(row: EventRow): Story {
    const story = this.#byKey.get(PROBES) ?? this.#begin(row)
    this.#byKey.set(PROBES, story)
    return story
  }

  #find(keys: readonly string[]): Story | undefined {
    return keys.map((key) => this.#byKey.get(key)).find((story) => story !== undefined)
  }

  /**
   * Returns the latest story whose sign-in is not finished, for an event that does not say who has sent the request. A story of
   * another client is not returned. If the event does not name a client, stories of a known client come first, because only a
   * client with an id can begin a sign-in.
   */
  #latest(client: string | undefined, time: string): Story | undefined {
    const keys = [...this.#byKey.entries()].filter(([key]) => key.startsWith('client:'))
    const known = new Set(keys.map(([, story]) => story))
    const open = this.#stories.filter(
      (story) => !story.isProbe && story.startedAt <= time && !hasEnded(story, time),
    )
    if (client !== undefined) return open.find((story) => !known.has(story))
    return open.find((story) => known.has(story)) ?? open[0]
  }

  #begin(row: EventRow): Story {
    const story = newStory(++this.#count, row)
    this.#stories = [story, ...this.#stories]
    const [gone] = this.#stories.splice(MAX_STORIES)
    for (const [key, one] of [...this.#byKey.entries()]) if (one === gone) this.#byKey.delete(key)
    return story
  }

  #link(story: Story, attributes: Attributes, client: unknown): void {
    const from = isSender(attributes) ? [fromOf(attributes)] : []
    story.hasSender ||= from.length > 0
    for (const key of [...from, ...keysOf(attributes, client)]) this.#byKey.set(key, story)
  }

  /** Adds a step to a story. Returns the step, or an equal one before it. */
  #continue(story: Story, { stage, time, event }: EventRow, step: Step, attributes: Attributes): Step {
    this.#changed.add(story)
    if (time < story.startedAt) story.startedAt = time
    const [name, namedBy] = nameIn(attributes)
    if (namedBy === 'registration' || NAME_SOURCES.indexOf(namedBy) > NAME_SOURCES.indexOf(story.namedBy))
      Object.assign(story, { name, namedBy })
    const kept = this.#push(story, step)
    // Metadata that is fetched again is not a step back.
    const isRepeated = (stage === 'metadata' || stage === 'issuer-metadata') && !EARLY.includes(story.stage)
    if (stage !== undefined && time >= story.stageAt && !isRepeated && !story.isProbe) {
      const [state, tone] = STATES[stage]
      const endedAt = ENDED.includes(stage) ? (story.endedAt ?? time) : undefined
      const next = nextStep(stage, event.attributes ?? {}, this.#issuer)
      Object.assign(story, { stage, stageAt: time, endedAt, state, tone, next })
    }
    return kept
  }

  /** Inserts a step by its time: the response of a stream ends later than those of the requests after it. */
  #push(story: Story, step: Step): Step {
    const { steps } = story
    const at = steps.findLastIndex(({ time }) => time <= step.time) + 1
    const before = steps[at - 1]
    if (before !== undefined && isSame(before, step)) {
      join(before, step)
      return before
    }
    steps.splice(at, 0, step)
    if (steps.length > MAX_STEPS) {
      steps.splice(FIRST_STEPS, 1)
      story.dropped++
    }
    return step
  }

  /** Joins a step with an equal one before it. */
  #merge({ steps }: Story, step: Step): void {
    const at = steps.indexOf(step)
    const previous = steps[at - 1]
    if (previous === undefined || !isSame(previous, step)) return
    join(previous, step)
    steps.splice(at, 1)
    for (const record of [...this.#requests.values()]) if (record.step === step) record.step = previous
  }

  #recordOf(id: string): RequestRecord {
    const record = this.#requests.get(id) ?? { details: [] }
    this.#requests.set(id, record)
    return record
  }
}

/** Everything that one client has done: one sign-in, and the calls after it. */
export type Story = ReturnType<typeof newStory>

function newStory(id: number, { time, isProbe }: EventRow) {
  const [state, tone]: readonly [string, Tone] = isProbe ? ['probes', 'plain'] : STATES.begun
  return {
    id,
    startedAt: time,
    name: 'a client',
    /** Where the name comes from. A name of a later source replaces it. */
    namedBy: 'nothing' as NameSource,
    user: undefined as string | undefined,
    /** The state of the sign-in. */
    state,
    tone,
    /** The step that the client has to take next, or `undefined` if it is signed in. */
    next: undefined as string | undefined,
    /** Oldest first. */
    steps: [] as Step[],
    /** `true` for the probes of `mcp-gatekit doctor`, which are folded. */
    isProbe,
    /** The number of steps that were removed. */
    dropped: 0,
    stage: 'begun' as Stage,
    /** The time of the event that led to this stage. Events do not arrive in the order of their times. */
    stageAt: '',
    /** The time of the event that ended the story, or `undefined` if it has not ended. */
    endedAt: undefined as string | undefined,
    /** `true` if an event of the story says who has sent its request. */
    hasSender: false,
  }
}

function rankOf(outcome: Outcome | undefined): number {
  return outcome === undefined ? -1 : OUTCOMES.indexOf(outcome)
}

function stepOf({ number, time, word, title, tone, hint, facts }: EventRow): Step {
  return { number, time, word, title, tone, hint, facts, count: 1 }
}

function isSame(a: Step, b: Step): boolean {
  return a.word === b.word && a.title === b.title && a.tone === b.tone && a.facts.join() === b.facts.join()
}

function join(step: Step, { number, time, count }: Step): void {
  step.number = number
  step.time = time
  step.count += count
}

/** Returns `true` if the attributes of an event say who has sent the request. */
function isSender(attributes: Attributes): boolean {
  return attributes['user_agent.original'] !== undefined || attributes['client.address'] !== undefined
}

/** Returns the keys of a client whose token, id, or session is known. */
function keysOf({ token, 'mcp.session.id': session }: Attributes, client: unknown): readonly string[] {
  const keys = Object.entries({ token, client, session }).filter(([, value]) => value !== undefined)
  return keys.map(([name, value]) => `${name}:${attributeText(value)}`)
}

/** Returns the key of a client before its token is known. */
function fromOf(attributes: Attributes): string {
  const { origin, 'client.address': address, 'user_agent.original': agent } = attributes
  // A server that listens on IPv6 sees IPv4 addresses in another form.
  const plain = attributeText(address).replace(/^::ffff:|^::1$/, '')
  return `from:${plain === '' ? '127.0.0.1' : plain} ${attributeText(agent)} ${attributeText(origin)}`
}

/** Returns the name of the client in an event: the one of the registration, the first word of the user agent, or the id. */
function nameIn({ client_name: name, client: id, ...attributes }: Attributes): [string, NameSource] {
  if (typeof name === 'string') return [attributeText(name), 'registration']
  const { origin, 'user_agent.original': agent } = attributes
  if (typeof origin === 'string') return [`page of ${origin}`, 'request']
  if (typeof agent === 'string') return [agent.split(' ', 1)[0] as string, 'request']
  return id === undefined ? ['', 'nothing'] : [attributeText(id), 'id']
}

/** Returns `true` if a story had ended at this time. */
function hasEnded({ endedAt }: Story, time: string): boolean {
  return endedAt !== undefined && time >= endedAt
}
