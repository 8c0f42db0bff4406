import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { transformSync } from 'rolldown/utils'

const root = fileURLToPath(new URL('../../../../', import.meta.url))

/** Returns the first block of `ts` below each heading of a page, as a module. The modules are removed after the tests. */
export async function importGuide<Module>(page: string): Promise<ReadonlyMap<string, Module>> {
  const markdown = readFileSync(join(root, page), 'utf8')
  // Within the project, so that its packages are found.
  mkdirSync(join(root, 'build'), { recursive: true })
  const folder = mkdtempSync(join(root, 'build', 'guide-'))
  try {
    const modules = new Map<string, Module>()
    for (const section of markdown.split(/^#+ /m)) {
      const code = /^```ts\n([\s\S]*?)^```$/m.exec(section)?.[1]
      if (code === undefined) continue
      const file = join(folder, `example-${modules.size}.mjs`)
      writeFileSync(file, transformSync('example.ts', code).code)
      modules.set(section.slice(0, section.indexOf('\n')), await import(pathToFileURL(file).href))
    }
    return modules
  } finally {
    rmSync(folder, { recursive: true })
  }
}
