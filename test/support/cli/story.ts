import type { Page } from 'playwright-core'

/** The part of the DOM that the function in the page uses. The types of Node.js do not include it. */
interface InPage {
  readonly document: { querySelectorAll(selector: string): Iterable<any> }
}

/**
 * Resolves when a story on the page of the console contains a text and has steps with these words in this order. Other steps may be
 * between them.
 */
export async function waitForSteps(page: Page, containing: string, words: readonly string[]): Promise<void> {
  const isShown = ([containing, words]: readonly [string, readonly string[]]): boolean => {
    const { document } = globalThis as unknown as InPage
    return [...document.querySelectorAll('#stories > details')].some((story) => {
      let at = 0
      for (const chip of story.querySelectorAll('.step .chip'))
        if (chip.innerText.slice(1).trim() === words[at]) at++
      return at === words.length && story.innerText.includes(containing)
    })
  }
  try {
    await page.waitForFunction(isShown, [containing, words] as const)
  } catch (error) {
    const shown = await page.locator('#stories').innerText()
    throw new Error(`no story has the steps ${words.join(', ')}:\n${shown}`, { cause: error })
  }
}
