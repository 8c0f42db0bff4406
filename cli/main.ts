#!/usr/bin/env node
import { run } from './run.ts'

// A reader such as `head` can close the pipe early.
process.stdout.on('error', () => undefined)
// process.exit() would discard output that is still in a pipe.
process.exitCode = await run(process.argv.slice(2), process)
