import { type Contestant, listen } from './contestants.ts'

/** Process of one contestant: `host.js <module> <name>`; tells its parent the port. */
const [module, name] = process.argv.slice(2) as [string, string]
const { contestants } = (await import(module)) as { contestants: Record<string, Contestant> }
const server = await (contestants[name] as Contestant)()
process.send?.(await listen(server))
process.on('disconnect', () => process.exit())
