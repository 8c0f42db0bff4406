import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const folder = fileURLToPath(new URL('../../test/', import.meta.url))

it('every test that is skipped prints its reason: only skipIf() of test/support/skip.ts skips tests', () => {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.includes('node_modules') && file !== 'skips.test.ts',
  )
  const skipping = files.filter((file) =>
    /\.skip\(|\bx(?:it|describe)\(/.test(readFileSync(join(folder, file), 'utf8')),
  )
  expect(skipping).to.deep.equal([join('support', 'skip.ts')])
})
