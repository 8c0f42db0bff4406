import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'

/**
 * Records the coverage of the compiled files that run in a page, in the folder and format that c8 reads.
 * @param fileOf returns the file URL of a script, or `undefined` for a script of another origin
 * @returns a function that writes the coverage to disk
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
