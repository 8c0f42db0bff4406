/** A program that imports its argument and prints the time and the CPU time of the import, in microseconds. */
const [, , specifier = ''] = process.argv
const begun = process.hrtime.bigint()
const before = process.cpuUsage()
await import(specifier)
const { user, system } = process.cpuUsage(before)
console.log(JSON.stringify([Number(process.hrtime.bigint() - begun) / 1000, user + system]))
