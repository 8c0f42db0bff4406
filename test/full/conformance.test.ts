import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { redisTaskStore } from '../../src/redis/task-store.ts'
import { CONFORMANCE_RUNS, CONFORMANCE_SERVERS, runConformanceSuite } from '../support/mcp/conformance.ts'
import { redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'

/** Returns the path of a list of failures. This file runs from the build folder; the lists are next to the sources. */
const listOfFailures = (name: string): string =>
  fileURLToPath(new URL(`../../../test/conformance/${name}`, import.meta.url))

describe('conformance: the suite of the protocol', () => {
  for (const [name, serve] of CONFORMANCE_SERVERS) {
    for (const { revision, sessions, total, expectedFailures } of CONFORMANCE_RUNS) {
      it(`${name} ${sessions ? 'with' : 'without'} sessions passes the suite for ${revision}`, async () => {
        const server = await serve({ sessions })
        const options = ['--requirements', revision]
        if (expectedFailures !== undefined)
          options.push('--expected-failures', listOfFailures(expectedFailures))
        try {
          const { code, output } = await runConformanceSuite(server.url, options)
          expect(output).to.contain(total)
          expect(code, output.slice(-4000)).to.equal(0)
        } finally {
          await server.close()
        }
      })
    }
  }
  for (const [name, serve] of CONFORMANCE_SERVERS) {
    it(`${name} that keeps tasks in Redis passes every scenario for tasks of 2026-07-28`, async function () {
      skipIf(this, redisMissing())
      const redis = await startRedis()
      const client = new Redis(redis.port, '127.0.0.1')
      const store = redisTaskStore(client)
      const server = await serve({ sessions: false, tasks: { store } })
      try {
        const { code, output } = await runConformanceSuite(server.url, ['--requirements', '2026-07-28'])
        expect(output).to.contain('Total: 196 passed, 0 failed')
        expect(code, output.slice(-4000)).to.equal(0)
        const passed = [...output.matchAll(/^✓ (tasks-[\w-]+): (\d+) passed, 0 failed$/gm)]
        expect(passed.length, output.slice(-4000)).to.equal(10)
        expect(await client.keys('mcp-gatekit:tasks:{*}:task:*')).not.to.deep.equal([])
      } finally {
        await server.close()
        await store.close()
        client.disconnect()
        await redis.stop()
      }
    })
  }
})
