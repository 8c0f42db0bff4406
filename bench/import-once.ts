/** A program: prints how long the import of what it is asked for takes, and the CPU time of it; both in microseconds. */
const [, , specifier = ''] = process.argv
const begun = process.hrtime.bigint()
const before = process.cpuUsage()
await import(specifier)
const { user, system } = process.cpuUsage(before)
console.log(JSON.stringify([Number(process.hrtime.bigint() - begun) / 1000, user + system]))
