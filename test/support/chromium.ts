import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

const executablePath = (process.env.PATH ?? '')
  .split(delimiter)
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find(existsSync)

/** Why tests with a real browser cannot run here; `undefined` when they can. */
export function chromiumMissing(): string | undefined {
  return executablePath === undefined ? 'chromium is not installed' : undefined
}

/** A Chromium without a window. */
export async function startChromium(): Promise<Browser> {
  // The superuser, as in a container, gets no sandbox.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ ...(executablePath !== undefined && { executablePath }), args })
}
