import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

/** The texts in a file of `test/cli/recorded`, by name. With `RECORD=1`, the tests write them. */
export class Recording {
  readonly #file: string
  readonly #texts: ReadonlyMap<string, string>

  constructor(name: string) {
    this.#file = fileURLToPath(new URL(`../../../../test/cli/recorded/${name}.txt`, import.meta.url))
    this.#texts = this.#read()
  }

  /** Returns the recorded text. */
  get(name: string): string {
    return this.#texts.get(name) ?? 'nothing'
  }

  /** Expects that a text is the recorded one. */
  compare(name: string, text: string): void {
    if (process.env.RECORD === '1') this.#write(name, text)
    else expect(text).to.equal(this.get(name))
  }

  #read(): Map<string, string> {
    const sections = existsSync(this.#file) ? readFileSync(this.#file, 'utf8').split(/^# /m).slice(1) : []
    return new Map(
      sections.map((section) => {
        const end = section.indexOf('\n')
        return [section.slice(0, end), section.slice(end + 1).trimEnd()]
      }),
    )
  }

  #write(name: string, text: string): void {
    const sections = [...this.#read().set(name, text)].map(([title, content]) => `# ${title}\n${content}\n`)
    mkdirSync(dirname(this.#file), { recursive: true })
    writeFileSync(this.#file, sections.join('\n'))
  }
}
