/** The faults of the world. They are drawn from the seed before the run, so that a run without some of them is the same run. */
import { network } from './network.ts'
import type { Role } from './node.ts'
import { Random } from './random.ts'
import type { Data } from './redis-data.ts'
import type { Week } from './week.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND

/** One fault of a run. */
export interface Fault {
  readonly number: number
  readonly kind: FaultKind
  readonly atMs: number
  /** Chooses the part of the world, and how long it lasts. */
  readonly seed: number
}

interface FaultType {
  readonly weight: number
  /** Begins the fault. Resolves at its end. */
  run(week: Week, random: Random): Promise<void>
}

const PEERS = [
  'redis.internal',
  'id.example.com',
  'clients.example.com',
  'collector.internal',
  'chat.example.com',
]

/** Lets something be different for a while. */
async function during(week: Week, ms: number, begin: () => void, end: () => void): Promise<void> {
  begin()
  await week.sleep(ms)
  end()
}

/** Starts each node again, one after the other. */
async function deploy(week: Week): Promise<void> {
  for (const node of week.nodes) {
    if (!week.isRunning) return
    await week.drain(node)
    week.start(node)
    await week.sleep(20 * SECOND)
  }
}

function service(
  week: Week,
  random: Random,
  name: 'provider' | 'documents' | 'collector' | 'chat',
  longestMs: number,
) {
  const target = week.services[name]
  const status = random.pick([500, 503, 429])
  const ms = random.between(30 * SECOND, longestMs)
  return random.chance(0.5)
    ? during(
        week,
        ms,
        () => (target.failure = status),
        () => (target.failure = 0),
      )
    : during(
        week,
        ms,
        () => (target.delayMs = 20 * SECOND),
        () => (target.delayMs = 0),
      )
}

export const FAULTS = {
  'kill a node': {
    weight: 4,
    async run(week, random) {
      const node = random.pick(week.nodes)
      if (!node.isServing) return
      week.kill(node)
      await week.sleep(random.between(SECOND, 2 * MINUTE))
      week.start(node)
    },
  },
  'drain a node': {
    weight: 2,
    async run(week, random) {
      const node = random.pick(week.nodes)
      await week.drain(node)
      await week.sleep(random.between(SECOND, 30 * SECOND))
      week.start(node)
    },
  },
  'deploy a configuration': {
    weight: 1,
    async run(week, random) {
      week.configuration = {
        ...week.configuration,
        accessTtlSeconds: random.pick([300, 600]),
        accessSeconds: random.pick([1, 5, 10]),
        refreshGraceSeconds: random.pick([45, 60, 120]),
      }
      await deploy(week)
    },
  },
  'rotate the keys of the facade': {
    weight: 2,
    async run(week) {
      const { keys, secrets } = week.configuration
      const [key = 0, other] = keys
      if (other !== undefined) return
      // As `mcp-gatekit keys` does: all nodes know the new keys before one uses them. Secrets stay.
      for (const stage of [
        { keys: [key, key + 1], secrets: [...secrets, key + 1] },
        { keys: [key + 1, key], secrets: [key + 1, ...secrets] },
        { keys: [key + 1] },
      ]) {
        week.configuration = { ...week.configuration, ...stage }
        await deploy(week)
        if (stage.keys[0] !== key) await week.sleep(12 * MINUTE)
      }
    },
  },
  'partition a node from a service': {
    weight: 2,
    async run(week, random) {
      const link = week.linkOf(random.pick(week.nodes).machine.name, random.pick(PEERS))
      await during(
        week,
        random.between(2 * SECOND, 3 * MINUTE),
        () => (link.isPartitioned = true),
        () => link.heal(),
      )
    },
  },
  'partition a person from a node': {
    weight: 1,
    async run(week, random) {
      const link = week.linkOf(random.pick(week.people).machine.name, random.pick(week.nodes).machine.name)
      await during(
        week,
        random.between(2 * SECOND, MINUTE),
        () => (link.isPartitioned = true),
        () => link.heal(),
      )
    },
  },
  'slow a link': {
    weight: 1,
    async run(week, random) {
      const node = random.pick(week.nodes).machine.name
      const other = random.chance(0.5) ? random.pick(PEERS) : random.pick(week.people).machine.name
      const link = week.linkOf(node, other)
      await during(
        week,
        random.between(MINUTE, 10 * MINUTE),
        () => (link.slowness = 60),
        () => (link.slowness = 1),
      )
    },
  },
  'cut responses': {
    weight: 3,
    async run(week, random) {
      const links = week.people.flatMap(({ machine }) =>
        week.nodes.map((node) => network.link(machine.name, node.machine.name)),
      )
      const set = (cuts: number) => () => {
        for (const link of links) link.cuts = cuts
      }
      await during(week, random.between(MINUTE, 10 * MINUTE), set(0.3), set(0))
    },
  },
  'cut responses of a service': {
    weight: 1,
    async run(week, random) {
      const host = random.pick(PEERS.slice(1))
      const links = week.nodes.map((node) => network.link(node.machine.name, host))
      const set = (cuts: number) => () => {
        for (const link of links) link.cuts = cuts
      }
      await during(week, random.between(MINUTE, 10 * MINUTE), set(0.3), set(0))
    },
  },
  'skew a clock': {
    weight: 1,
    async run(week, random) {
      const { machine } = random.pick(week.nodes)
      const ms = random.between(-15 * SECOND, 15 * SECOND)
      await during(
        week,
        random.between(10 * MINUTE, 120 * MINUTE),
        () => (machine.skewMs = ms),
        () => (machine.skewMs = 0),
      )
    },
  },
  'rotate the keys of the provider': {
    weight: 1,
    async run(week) {
      week.provider.rotate()
      // Keys that a node has cached are replaced when it meets a new one.
      await week.sleep(5 * MINUTE)
    },
  },
  'fail the provider': { weight: 1, run: (week, random) => service(week, random, 'provider', 20 * MINUTE) },
  'fail the document host': {
    weight: 1,
    run: (week, random) => service(week, random, 'documents', 20 * MINUTE),
  },
  'fail the collector': { weight: 1, run: (week, random) => service(week, random, 'collector', 60 * MINUTE) },
  'fail the chat': { weight: 1, run: (week, random) => service(week, random, 'chat', 60 * MINUTE) },
  'hang Redis': {
    weight: 2,
    run: (week, random) =>
      during(
        week,
        random.between(SECOND, 90 * SECOND),
        () => week.redis.hang(),
        () => week.redis.resume(),
      ),
  },
  'drop the connections to Redis': {
    weight: 2,
    async run(week) {
      week.redis.dropConnections()
    },
  },
  'lose replies of Redis': {
    weight: 3,
    async run(week, random) {
      await during(
        week,
        5 * SECOND,
        () => {
          week.redis.loses = random.pick(['', 'exec'])
          week.redis.loseReplies += 1 + random.below(3)
        },
        () => undefined,
      )
    },
  },
  'refuse commands of Redis': {
    weight: 2,
    run: (week, random) =>
      during(
        week,
        random.between(SECOND, MINUTE),
        () => (week.redis.refuse = 1 + random.below(100)),
        () => (week.redis.refuse = 0),
      ),
  },
  'restart Redis': {
    weight: 2,
    async run(week, random) {
      week.redis.stop()
      await week.sleep(random.between(SECOND, MINUTE))
      week.redis.start()
    },
  },
  'restart Redis with old data': {
    weight: 0.3,
    async run(week, random) {
      const data: Data = week.redis.data.copy()
      await week.sleep(random.between(10 * SECOND, 30 * MINUTE))
      week.redis.stop()
      await week.sleep(random.between(SECOND, 10 * SECOND))
      week.redis.start(data)
      week.lostData('Redis was restored')
    },
  },
  'restart Redis without data': {
    weight: 0.2,
    async run(week) {
      week.redis.stop()
      await week.sleep(2 * SECOND)
      week.redis.start(new Map())
      week.lostData('Redis lost its data')
    },
  },
  'fill a disk': {
    weight: 1,
    async run(week, random) {
      const { machine } = random.pick(week.nodes)
      await during(
        week,
        random.between(MINUTE, 30 * MINUTE),
        () => (machine.isDiskFull = true),
        () => (machine.isDiskFull = false),
      )
    },
  },
  'revoke a grant': {
    weight: 4,
    async run(week, random) {
      await week.revoke(
        random.pick(week.people),
        random.pick(['grant', 'user'] as const),
        random.pick(week.nodes),
      )
    },
  },
  'change a role': {
    weight: 2,
    async run(week, random) {
      const person = random.pick(week.people)
      await week.changeRole(person, random.pick<Role>(['reader', 'reader', 'none']))
      await week.sleep(random.between(15 * MINUTE, 60 * MINUTE))
      await week.changeRole(person, 'editor')
    },
  },
  'deny a person by the policy': {
    weight: 4,
    async run(week, random) {
      const person = random.pick(week.people)
      await during(
        week,
        random.between(5 * MINUTE, 60 * MINUTE),
        () => week.deny(person),
        () => week.permit(person),
      )
    },
  },
  'burst of calls': {
    weight: 1,
    async run(week, random) {
      await Promise.all(week.people.map((person) => person.burst(10 + random.below(15))))
    },
  },
} satisfies Record<string, FaultType>

export type FaultKind = keyof typeof FAULTS

/** Faults that do not disturb requests. Their consequences have reasons of their own. */
const HARMLESS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'revoke a grant',
  'change a role',
  'fail the collector',
  'fail the chat',
  'fill a disk',
  'deny a person by the policy',
  'burst of calls',
])

export function disturbs(kind: FaultKind): boolean {
  return !HARMLESS.has(kind)
}

/** Draws the faults of a run. */
export function drawFaults(seed: number, durationMs: number, everyMs: number): Fault[] {
  const random = new Random(seed, 'faults')
  const kinds = Object.entries(FAULTS) as [FaultKind, FaultType][]
  const total = kinds.reduce((sum, [, { weight }]) => sum + weight, 0)
  const faults: Fault[] = []
  for (let atMs = random.wait(everyMs); atMs < durationMs; atMs += random.wait(everyMs)) {
    const target = random.next() * total
    let sum = 0
    const [kind] =
      kinds.find(([, { weight }]) => {
        sum += weight
        return target < sum
      }) ?? (kinds[0] as [FaultKind, FaultType])
    faults.push({ number: faults.length, kind, atMs, seed: random.below(2 ** 31) })
  }
  return faults
}
