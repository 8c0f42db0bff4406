/**
 * `npm run test:week -- --seed 7 --days 7` runs the world with a seed, and reports the first thing that must not happen.
 *
 *   --seed <number>         chooses everything that happens; defaults to 1
 *   --days <number>         virtual days; defaults to 1
 *   --hours <number>        virtual hours, instead of days
 *   --people <number>       users; defaults to 10
 *   --workday <hours>       the hours in which people act, from Monday to Friday; 24: always. Defaults to 9, and to 24 with --hours
 *   --act-every <minutes>   the mean time between two actions of a client; defaults to 20
 *   --fault-every <minutes> the mean time between two faults; defaults to 20
 *   --only <numbers>        only these faults of the seed, such as 3,7
 *   --shrink                after a failure, finds the faults that it needs
 *   --verbose               prints what happens
 */
import './time.ts'
import './network.ts'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    days: { type: 'string' },
    hours: { type: 'string' },
    people: { type: 'string', default: '10' },
    workday: { type: 'string' },
    'act-every': { type: 'string', default: '20' },
    'fault-every': { type: 'string', default: '20' },
    only: { type: 'string' },
    shrink: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
})

// Modules are loaded before the world begins, because reading files takes real time.
for (const name of [
  '@modelcontextprotocol/server',
  '@opentelemetry/api',
  '@opentelemetry/exporter-logs-otlp-http',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-logs',
  'express-oauth2-jwt-bearer',
  'jose',
  'oauth4webapi',
  'oidc-provider',
  'openid-client',
])
  await import(name)
const { Week } = await import('./week.ts')
const { replaceFileHandles, time } = await import('./time.ts')
await replaceFileHandles()
const { network } = await import('./network.ts')

process.on('unhandledRejection', (error) => time.failures.push(error))
process.on('uncaughtException', (error) => time.failures.push(error))

const hours = values.hours === undefined ? Number(values.days ?? 1) * 24 : Number(values.hours)
const week = new Week({
  seed: Number(values.seed),
  durationMs: hours * 3_600_000,
  faultEveryMs: Number(values['fault-every']) * 60_000,
  actEveryMs: Number(values['act-every']) * 60_000,
  people: Number(values.people),
  workdayHours: Number(values.workday ?? (values.hours === undefined ? 9 : 24)),
  only: values.only === undefined ? undefined : new Set(values.only.split(',').filter(Boolean).map(Number)),
  isVerbose: values.verbose,
})
const report = await network.run(() => week.run())
week[Symbol.dispose]()
const { violations, log, digest, figures, faults } = report
const isOk = violations.length === 0
if (!isOk && !values.verbose) console.log(log.slice(-60).join('\n'))
for (const { invariant, detail } of violations.slice(0, 5)) console.log(`\n${invariant}\n  ${detail}`)
if (!isOk) {
  const { shrink: _, verbose: __, only, ...chosen } = values
  const args = Object.entries(chosen).flatMap(([name, value]) => [`--${name}`, String(value)])
  const again = only === undefined ? args : [...args, '--only', only]
  console.log(`\nRun it again: npm run test:week -- ${again.join(' ')}`)
  if (values.shrink) {
    const { runWeek, shrink } = await import('./shrink.ts')
    const needed = await shrink(args, await runWeek(args))
    for (const { number, kind } of faults) if (needed.includes(number)) console.log(`  ${number}: ${kind}`)
    console.log(
      `With these faults only: npm run test:week -- ${args.join(' ')} --only ${needed.join(',') || ','}`,
    )
  }
}
console.log(
  JSON.stringify({ seed: Number(values.seed), hours, ok: isOk, digest, ...figures, drawn: faults.length }),
)
process.exit(isOk ? 0 : 1)
