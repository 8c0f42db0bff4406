import { expect } from 'chai'
import {
  ClusterNode,
  freePorts,
  type Nginx,
  nginxMissing,
  startNginx,
  type TransportCounts,
} from '../support/cluster.ts'
import { ClusterListener, ClusterLoad, connectClient } from '../support/cluster-load.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import {
  createSigningKey,
  type KeyServer,
  type SigningKey,
  signToken,
  startKeyServer,
} from '../support/tokens.ts'

const BOARD = 'board://notes'
const CLIENTS = 200
const LISTENERS_OF_EACH_KIND = 5

const seconds = (count: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, count * 1_000))

describe('a cluster: two nodes behind nginx, Redis between, a collector behind', function () {
  this.timeout(180_000)

  let redis: RedisServer
  let keys: KeyServer
  let key: SigningKey
  let collector: OtlpReceiver
  let nginx: Nginx
  let nodes: readonly [ClusterNode, ClusterNode]
  let front: URL
  const counts: TransportCounts[] = []

  before(async function () {
    const missing = redisMissing() ?? nginxMissing()
    if (missing !== undefined) {
      console.log(`    skipped: ${missing}`)
      return this.skip()
    }
    const [port, ...ports] = (await freePorts(3)) as [number, number, number]
    redis = await startRedis()
    key = await createSigningKey('ES256', 'key')
    keys = await startKeyServer([key])
    collector = await startOtlpReceiver()
    front = new URL(`http://127.0.0.1:${port}/mcp`)
    const env = {
      ISSUER: keys.origin,
      JWKS_URI: keys.jwksUri,
      RESOURCE: front.href,
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      STATE_SECRET: 'a secret that all nodes of the test share',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      INFO_RATE: '1',
    }
    nodes = [new ClusterNode(ports[0], env), new ClusterNode(ports[1], env)]
    await Promise.all(nodes.map((node) => node.start()))
    nginx = await startNginx(port, ports)
  })
  after(async () => {
    await nginx?.stop()
    await Promise.all((nodes ?? []).map((node) => node.kill()))
    await collector?.close()
    await keys?.stop()
    await redis?.stop()
  })

  const tokenFor = (sub: string) =>
    signToken(key, {
      iss: keys.origin,
      aud: front.href,
      sub,
      client_id: 'test',
      scope: 'mcp:read',
    })

  it('loses nothing but what was under way on a node that is killed', async () => {
    const [one, two] = nodes
    const tokens = await Promise.all(Array.from({ length: 20 }, (_, index) => tokenFor(`user-${index}`)))
    const listenTo = (node: ClusterNode): Promise<ClusterListener[]> =>
      Promise.all(
        (['legacy', 'modern'] as const).flatMap((era) =>
          Array.from({ length: LISTENERS_OF_EACH_KIND }, () =>
            ClusterListener.open(node.url, tokens[0] as string, era, BOARD),
          ),
        ),
      )
    const listeners = await listenTo(one)
    const doomed = await listenTo(two)
    const poster = await connectClient(front, tokens[0] as string, 'modern')
    const load = new ClusterLoad()
    load.phase = 'undisturbed'
    await load.start(front, tokens, CLIENTS)
    let posted = 0
    /** A note every 200 ms, as often as it goes well. */
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

    load.phase = 'a node is killed'
    await Promise.all([post(20), seconds(1).then(() => two.kill())])
    await two.start()
    for (const listener of doomed.splice(0)) await listener.close()
    await post(5)

    load.phase = 'Redis is restarted'
    await redis.kill()
    await seconds(1)
    await redis.start()
    await seconds(2)
    await post(5)

    load.phase = 'nginx is reloaded'
    for (let count = 0; count < 3; count++) {
      await nginx.reload()
      await seconds(1)
    }

    const survivors = listeners.map(({ heard, gaps }) => ({ heard, gaps }))
    const postedToSurvivors = posted
    load.phase = 'nodes are restarted, taken out first'
    for (const node of nodes) {
      await nginx.reload([node.port])
      counts.push((await node.stop()) as TransportCounts)
      await node.start()
      await nginx.reload()
      await seconds(1)
    }

    load.phase = 'nodes are restarted, by SIGTERM alone'
    for (const node of nodes) {
      counts.push((await node.stop()) as TransportCounts)
      await node.start()
      await seconds(1)
    }
    await load.stop()
    await poster.close()
    for (const listener of listeners) await listener.close()
    for (const node of nodes) counts.push((await node.stop()) as TransportCounts)

    console.log('\n| phase | requests | failed |\n|---|---|---|')
    for (const [phase, requests] of Object.entries(load.requests))
      console.log(`| ${phase} | ${requests} | ${load.failures.filter((one) => one.phase === phase).length} |`)
    const words = load.failures.map(({ phase, message }) => `${phase}: ${message}`)
    for (const message of new Set(words))
      console.log(`  ${words.filter((one) => one === message).length} × ${message}`)
    console.log(
      'nginx',
      [
        ...new Set(
          nginx.complaints.map((line) =>
            line.replace(/^.*?\*\d+ /, '').replace(/, client.*upstream:/, ' upstream:'),
          ),
        ),
      ].slice(0, 20),
    )
    console.log('posted', postedToSurvivors, survivors, counts, collector.records.length, load.wrong.length)
    expect(load.wrong).to.deep.equal([])
  })
})
