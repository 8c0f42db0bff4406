// Writes the lists of options in docs/reference/errors.md. Each item says what the message for the option says.
import { writeFileSync } from 'node:fs'
import { PAGE, readPage, withOptionLists } from '../build/test/support/option-lists.js'

writeFileSync(PAGE, await withOptionLists(readPage()))
