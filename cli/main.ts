#!/usr/bin/env node
import { run } from './run.ts'

// Whoever reads may stop reading.
process.stdout.on('error', () => undefined)
// The exit code is set, not forced: what is still in a pipe is written first.
process.exitCode = await run(process.argv.slice(2), process)
