import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'

/**
 * Counts what a page runs of our compiled files as c8 counts what Node runs, where it does.
 * @param fileOf the file URL of a script; undefined for one that is not ours
 * @returns writes it down
 */
export async function countCoverage(
  page: Page,
  fileOf: (url: string) => string | undefined,
): Promise<() => Promise<void>> {
  const folder = process.env.NODE_V8_COVERAGE
  if (folder === undefined) return async () => undefined
  await page.coverage.startJSCoverage({ resetOnNavigation: false })
  return async () => {
    const scripts = await page.coverage.stopJSCoverage()
    const result = scripts.flatMap(({ url, scriptId, functions }) => {
      const file = fileOf(url)
      return file === undefined ? [] : [{ url: file, scriptId, functions }]
    })
    await writeFile(
      join(folder, `coverage-browser-${process.pid}-${Date.now()}.json`),
      JSON.stringify({ result }),
    )
  }
}
