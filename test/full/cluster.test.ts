import { expect } from 'chai'
import {
  type Cluster,
  type ClusterNode,
  clusterMissing,
  startCluster,
  type TransportCounts,
} from '../support/cluster.ts'
import { ClusterListener, ClusterLoad, connectClient } from '../support/cluster-load.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const BOARD = 'board://notes'
const CLIENTS = 60
const PHASES = [
  'nothing happens',
  'a node is killed, and comes back',
  'Redis is killed, and comes back',
  'every node is ended by SIGTERM, and comes back',
  'nginx is reloaded, twice',
] as const
const LISTENERS_OF_EACH_KIND = 5

/** The number of calls in each phase. */
const CALLS_OF_A_PHASE = 300

const seconds = (count: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, count * 1_000))

/** Waits until a condition holds, for a limited time. The expectations report a condition that never holds. */
const within = async (limitSeconds: number, condition: () => boolean): Promise<void> => {
  const end = performance.now() + limitSeconds * 1_000
  await until(() => condition() || performance.now() > end, 50)
}

describe('a cluster of two nodes with nginx, Redis, and a collector', function () {
  this.timeout(400_000)

  let collector: OtlpReceiver
  let cluster: Cluster

  before(async function () {
    skipIf(this, clusterMissing())
    collector = await startOtlpReceiver()
    cluster = await startCluster({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, INFO_RATE: '1' })
  })
  after(async () => {
    await cluster?.stop()
    await collector?.close()
  })

  const listenTo = async (node: ClusterNode): Promise<ClusterListener[]> => {
    const token = await cluster.tokenFor('listener')
    return await Promise.all(
      (['legacy', 'modern'] as const).flatMap((era) =>
        Array.from({ length: LISTENERS_OF_EACH_KIND }, () =>
          ClusterListener.open(node.url, token, era, BOARD),
        ),
      ),
    )
  }

  it('a cluster under load loses only the requests that run on a killed node', async () => {
    const { front, nginx, nodes, redis, tokenFor } = cluster
    const [one, two] = nodes
    const tokens = await Promise.all(Array.from({ length: 20 }, (_, index) => tokenFor(`user-${index}`)))
    const load = new ClusterLoad()
    load.phase = PHASES[0]
    const listeners = await listenTo(one)
    const onKilled = await listenTo(two)
    const poster = await connectClient(front, await tokenFor('poster'), 'modern')
    await load.start(front, tokens, CLIENTS)

    /** Resolves when the load has made `CALLS_OF_A_PHASE` more calls. */
    const called = async (): Promise<void> => {
      const { phase } = load
      const before = load.requests[phase] ?? 0
      await until(() => (load.requests[phase] ?? 0) >= before + CALLS_OF_A_PHASE, 20)
    }
    let posted = 0
    const post = async (times: number): Promise<void> => {
      for (let count = 0; count < times; count++) {
        await seconds(0.2)
        try {
          const { isError } = await poster.callTool({ name: 'post', arguments: { note: `${count}` } })
          if (isError !== true) posted++
        } catch (error) {
          load.failures.push({ phase: load.phase, message: String(error) })
        }
      }
    }
    await post(15)

    load.phase = PHASES[1]
    await Promise.all([post(15), called().then(() => two.kill())])
    const killComplaints = nginx.complaints.filter((line) =>
      new RegExp(`(?:failed|closed).* while reading response header from upstream.*:${two.port}/`).test(line),
    ).length
    await two.start()
    for (const listener of onKilled.splice(0)) await listener.close()
    onKilled.push(...(await listenTo(two)))

    load.phase = PHASES[2]
    await redis.kill()
    await called()
    await redis.start()
    const sawGap = ({ gaps }: ClusterListener) => gaps > 0
    await within(30, () => [...listeners, ...onKilled].every(sawGap))
    const sawGapCount = [...listeners, ...onKilled].filter(sawGap).length
    await post(10)

    const lost = (): number => listeners.reduce((sum, { updates }) => sum + Math.max(0, posted - updates), 0)
    await within(30, () => lost() === 0)

    load.phase = PHASES[3]
    const counts: TransportCounts[] = []
    for (const node of nodes) {
      const ended = await node.stop()
      if (ended !== undefined) counts.push(ended)
      await node.start()
      await called()
    }

    load.phase = PHASES[4]
    const before = nginx.complaints.length
    for (let count = 0; count < 2; count++) {
      await nginx.reload()
      await called()
    }
    const reloadComplaints = nginx.complaints.slice(before)
    await load.stop()
    await poster.close()
    for (const listener of [...listeners, ...onKilled]) await listener.close()
    for (const node of nodes) {
      const ended = await node.stop()
      if (ended !== undefined) counts.push(ended)
    }

    const failuresOf = (phase: string) => load.failures.filter((failure) => failure.phase === phase)
    const total = (name: keyof TransportCounts) => counts.reduce((sum, count) => sum + count[name], 0)
    expect(load.wrong).to.deep.equal([])
    for (const phase of [PHASES[0], PHASES[2], PHASES[3], PHASES[4]])
      expect(failuresOf(phase), phase).to.deep.equal([])
    // For each of them, nginx has logged that the killed node had the request.
    expect(failuresOf(PHASES[1]).length).to.be.at.most(killComplaints)
    expect(reloadComplaints).to.deep.equal([])
    expect(lost()).to.equal(0)
    expect(posted).to.be.at.least(30)
    expect(sawGapCount).to.equal(listeners.length + onKilled.length)
    expect(counts).to.have.length(4)
    expect(total('accepted')).to.equal(total('delivered')).and.to.be.greaterThan(1_000)
    expect(collector.records.length).to.be.at.least(total('delivered'))
  })
})
