// Writes the tables of options in docs/reference/errors.md. Each row says what the message for the option says.
import { writeFileSync } from 'node:fs'
import { PAGE, readPage, withOptionTables } from '../build/test/support/option-tables.js'

writeFileSync(PAGE, await withOptionTables(readPage()))
