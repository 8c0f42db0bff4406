import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

const executablePath = (process.env.PATH ?? '')
  .split(delimiter)
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find(existsSync)

/** Returns the reason why tests with a real browser cannot run here, or `undefined` if they can. */
export function chromiumMissing(): string | undefined {
  return executablePath === undefined ? 'chromium is not installed' : undefined
}

/** Starts a headless Chromium. */
export async function startChromium(): Promise<Browser> {
  // Chromium does not start its sandbox as root, which is the user in a container.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ ...(executablePath !== undefined && { executablePath }), args })
}
