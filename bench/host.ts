import { type Contestant, listen } from './contestants.ts'

/** The process of one contestant: `host.js <module> <name>`. It sends its parent the port and, on request, its CPU time. */
const [module, name] = process.argv.slice(2) as [string, string]
const { contestants } = (await import(module)) as { contestants: Record<string, Contestant> }
const server = await (contestants[name] as Contestant)()
process.send?.(await listen(server))
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.(user + system)
})
process.on('disconnect', () => process.exit())
