import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { ClusterNode } from '../support/cluster.ts'
import { createProofKey, type ProofKey, proofFor } from '../support/dpop.ts'
import { freePorts } from '../support/free-port.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import {
  createSigningKey,
  type KeyServer,
  nowSeconds,
  type SigningKey,
  signToken,
  startKeyServer,
} from '../support/tokens.ts'
import { until } from '../support/until.ts'

const RESOURCE = 'http://127.0.0.1:9/mcp'
/** The seconds after `iat` in which nodes accept a proof. */
const PROOF_SECONDS = 300

/** Starts a proxy to `target` that delays replies by `delayMs`. */
async function startSlowProxy(target: number) {
  const slow = { port: 0, delayMs: 0, close: () => undefined as unknown }
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
      })
    }
    client.pipe(upstream)
    // Replies stay in order: each waits for those before it.
    let written = Promise.resolve()
    upstream.on('data', (data) => {
      const delayed = sleep(slow.delayMs)
      written = written.then(async () => {
        await delayed
        client.write(data)
      })
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  slow.port = (server.address() as AddressInfo).port
  slow.close = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return slow
}

describe('a cluster with failures', function () {
  this.timeout(240_000)

  let redis: RedisServer
  let admin: Redis
  let slow: Awaited<ReturnType<typeof startSlowProxy>>
  let keys: KeyServer
  let key: SigningKey
  let proofKey: ProofKey
  let env: Readonly<Record<string, string>>
  const nodes: ClusterNode[] = []

  beforeEach(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
    admin = new Redis(redis.port, '127.0.0.1')
    admin.on('error', () => undefined)
    slow = await startSlowProxy(redis.port)
    key = await createSigningKey('ES256', 'key')
    keys = await startKeyServer([key])
    proofKey = await createProofKey()
    env = {
      ISSUER: keys.origin,
      JWKS_URI: keys.jwksUri,
      RESOURCE,
      REDIS_URL: `redis://127.0.0.1:${slow.port}`,
      STATE_SECRET: 'a secret that all nodes of the test share',
    }
  })
  afterEach(async () => {
    for (const node of nodes.splice(0)) await node.kill()
    slow?.close()
    admin?.disconnect()
    await redis?.stop()
  })

  async function startTwo(clockOffsetMs?: number): Promise<readonly [ClusterNode, ClusterNode]> {
    const ports = (await freePorts(2)) as [number, number]
    const shifted = clockOffsetMs === undefined ? {} : { CLOCK_OFFSET_MS: String(clockOffsetMs) }
    const pair = [new ClusterNode(ports[0], env), new ClusterNode(ports[1], { ...env, ...shifted })] as const
    nodes.push(...pair)
    await Promise.all(pair.map((node) => node.start()))
    return pair
  }

  const token = (claims: object = {}) =>
    signToken(key, { iss: keys.origin, aud: RESOURCE, client_id: 'c', scope: 'mcp:read', ...claims })
  const boundToken = () => token({ cnf: { jkt: proofKey.thumbprint } })
  const proof = (bound: string, iat = nowSeconds()) =>
    proofFor(proofKey, 'POST', RESOURCE, { token: bound, claims: { iat } })

  /** Returns the status of a call. */
  async function call(
    node: ClusterNode,
    authorization: string,
    dpop?: string,
    [method, params]: readonly [string, object] = ['tools/call', { name: 'greet', arguments: { name: 'a' } }],
  ): Promise<number> {
    const headers = {
      authorization,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(dpop !== undefined && { dpop }),
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const response = await fetch(node.url, { method: 'POST', headers, body })
    const text = await response.text()
    if (response.status === 200) expect(text).to.not.include('"error"')
    return response.status
  }

  for (const [name, begin, end] of [
    ['is full', () => admin.config('SET', 'maxmemory', '1'), () => admin.config('SET', 'maxmemory', '0')],
    ['is read-only', () => admin.replicaof('127.0.0.1', 1), () => admin.replicaof('NO', 'ONE')],
    [
      'gives errors',
      () => admin.acl('SETUSER', 'default', '-@all', '+acl'),
      () => admin.acl('SETUSER', 'default', '+@all'),
    ],
    [
      'is slow',
      () => {
        slow.delayMs = 3_000
      },
      () => {
        slow.delayMs = 0
      },
    ],
    ['is gone', () => redis.kill(), () => redis.start()],
  ] as const) {
    it(`requests without DPoP proofs succeed while Redis ${name}, and all requests succeed afterwards`, async () => {
      const pair = await startTwo()
      await begin()
      for (const node of pair) {
        expect(await call(node, `Bearer ${await token()}`)).to.equal(200)
        expect(await call(node, 'Bearer bad')).to.equal(401)
        const bound = await boundToken()
        expect(await call(node, `DPoP ${bound}`, await proof(bound))).to.equal(503)
      }
      await end()
      const bound = await boundToken()
      const [one, other] = pair
      // A client whose connection was lost reconnects after a delay of its own.
      let used = ''
      for (let status = 503; status !== 200; ) {
        used = await proof(bound)
        status = await call(one, `DPoP ${bound}`, used)
        expect(status).to.be.oneOf([200, 503])
      }
      let replayed = 503
      while (replayed === 503) replayed = await call(other, `DPoP ${bound}`, used)
      expect(replayed).to.equal(401)
    })
  }

  it('nodes with clocks ten seconds apart accept tokens, proofs, and states, and each proof only once', async () => {
    const [one, ahead] = await startTwo(10_000)
    for (const node of [one, ahead]) {
      expect(await call(node, `Bearer ${await token({ nbf: nowSeconds() })}`)).to.equal(200)
      expect(await call(node, `Bearer ${await token({ exp: nowSeconds() - 60 })}`)).to.equal(401)
    }
    const bound = await boundToken()
    const fresh = await proof(bound)
    expect(await call(one, `DPoP ${bound}`, fresh)).to.equal(200)
    expect(await call(ahead, `DPoP ${bound}`, fresh)).to.equal(401)
    // The proof expires soon by the fast clock, and ten seconds later by the other clock.
    const issuedAt = nowSeconds() - PROOF_SECONDS + 10 + 5
    const old = await proof(bound, issuedAt)
    expect(await call(ahead, `DPoP ${bound}`, old)).to.equal(200)
    await until(() => nowSeconds() + 10 > issuedAt + PROOF_SECONDS + 1, 100)
    expect(await call(one, `DPoP ${bound}`, old)).to.equal(401)

    const client = new Client(
      { name: 'test', version: '1.0.0' },
      { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
    )
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { sure: true } }))
    let requests = 0
    const alternating: typeof fetch = (_url, init) => fetch((requests++ % 2 === 0 ? one : ahead).url, init)
    const requestInit = { headers: { authorization: `Bearer ${await token()}` } }
    await client.connect(new StreamableHTTPClientTransport(one.url, { fetch: alternating, requestInit }))
    for (const round of [0, 1]) {
      if (round === 1) await client.callTool({ name: 'greet', arguments: { name: 'x' } })
      const { content } = await client.callTool({ name: 'clear', arguments: {} })
      expect(content).to.deep.equal([{ type: 'text', text: '0 notes were removed.' }])
    }
    await client.close()
  })
})
