// Writes docs/guides/evidence.md from the tables in test/support/evidence. The tests compare the page with them.
import { writeFileSync } from 'node:fs'
import { evidencePage } from '../build/test/support/evidence/page.js'

writeFileSync(new URL('../docs/guides/evidence.md', import.meta.url), evidencePage())
