// Writes docs/guides/clients.md from the tables in cli/clients. The tests compare the page with them.
import { writeFileSync } from 'node:fs'
import { guidePage } from '../build/package/cli/clients/guide.js'

writeFileSync(new URL('../docs/guides/clients.md', import.meta.url), guidePage())
