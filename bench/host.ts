import { createHook } from 'node:async_hooks'
import { type IntervalHistogram, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'
import { setTimeout } from 'node:timers/promises'
import { type Contestant, listen } from './contestants.ts'
import { COUNT_TIMERS, type HostReplies } from './started-host.ts'

/** The beginning of the addresses of the modules of this package. */
const OWN = new URL('../src/', import.meta.url).href

/** The bytes between two samples of the profiler. */
const SAMPLING_INTERVAL = 4_096

/** The process of one contestant: `host.js <module> <name>`. It sends its parent the port, and then a reply to each request. */
const [module, name, mode] = process.argv.slice(2) as [string, string, string?]
const timers = mode === COUNT_TIMERS ? countTimers() : undefined
const { contestants } = (await import(module)) as { contestants: Record<string, Contestant> }
const server = await (contestants[name] as Contestant)()
let stopSampling: () => number = () => 0
let stopProfile: () => number = () => 0
let delay: IntervalHistogram | undefined
let collectedMs = 0
let collections: PerformanceObserver | undefined

const replies: { [Request in keyof HostReplies]: () => Promise<HostReplies[Request]> } = {
  async cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  },
  rss: async () => process.memoryUsage.rss(),
  async memory() {
    for (let times = 0; times < 4; times++) {
      globalThis.gc?.()
      await setTimeout(50)
    }
    const { heapUsed, rss } = process.memoryUsage()
    const active = process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout')
    const connections = await new Promise<number>((resolve, reject) => {
      server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
    })
    return { heapUsed, rss, connections, activeTimers: active.length, timers: timers?.size }
  },
  async delay() {
    const p99 = (delay?.percentile(99) ?? 0) / 1e6
    delay?.disable()
    delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    return p99
  },
  async collected() {
    if (collections === undefined) {
      collections = new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) collectedMs += duration
      })
      collections.observe({ entryTypes: ['gc'] })
    }
    const sinceLast = collectedMs
    collectedMs = 0
    return sinceLast
  },
  async sample() {
    stopSampling = await sampleAllocations()
    return true
  },
  allocated: async () => stopSampling(),
  async profile() {
    stopProfile = await profileProcessor()
    return true
  },
  profiled: async () => stopProfile(),
}
process.on('message', async (request: keyof HostReplies) => process.send?.(await replies[request]()))
process.on('disconnect', () => process.exit())
process.send?.(await listen(server))

/** Counts timers that are not cleared and have not ended. */
function countTimers(): ReadonlySet<number> {
  const live = new Set<number>()
  createHook({
    init: (id, type) => {
      if (type === 'Timeout') live.add(id)
    },
    destroy: (id) => {
      live.delete(id)
    },
  }).enable()
  return live
}

/** Starts V8's sampling heap profiler. Returns a function that stops it and returns the allocated bytes. */
async function sampleAllocations(): Promise<() => number> {
  const { Session } = await import('node:inspector')
  const session = new Session()
  session.connect()
  session.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLING_INTERVAL,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  } as object)
  return () => {
    let bytes = 0
    const add = (node: { selfSize: number; children: readonly (typeof node)[] }): void => {
      bytes += node.selfSize
      node.children.forEach(add)
    }
    // The callback runs before `post` returns.
    session.post('HeapProfiler.stopSampling', (error, { profile }) => {
      if (error !== null) throw error
      add(profile.head)
    })
    session.disconnect()
    return bytes
  }
}

/** Starts V8's profiler. Returns a function that stops it and returns the share of the samples in code of this package. */
async function profileProcessor(): Promise<() => number> {
  const { Session } = await import('node:inspector')
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.start')
  return () => {
    let [own, all] = [0, 0]
    // The callback runs before `post` returns.
    session.post('Profiler.stop', (error, { profile }) => {
      if (error !== null) throw error
      for (const { hitCount = 0, callFrame } of profile.nodes) {
        if (callFrame.functionName === '(idle)') continue
        all += hitCount
        if (callFrame.url.startsWith(OWN)) own += hitCount
      }
    })
    session.disconnect()
    return own / all
  }
}
