import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../', import.meta.url))

const textOf = (file: string): string => readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```$/gm, '')

/** Returns the anchors of the headings of a page, as GitHub creates them. */
function anchorsOf(file: string): string[] {
  const seen = new Map<string, number>()
  return Array.from(textOf(file).matchAll(/^#+ (.*)$/gm), ([, heading = '']) => {
    const slug = heading
      .toLowerCase()
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-')
    const before = seen.get(slug) ?? 0
    seen.set(slug, before + 1)
    return before === 0 ? slug : `${slug}-${before}`
  })
}

/** Returns the links of a page whose file or heading does not exist. */
function brokenLinks(file: string): string[] {
  return Array.from(textOf(file).matchAll(/\]\((?<target>[^)\s]+)\)/g), ({ groups }) => groups?.target ?? '')
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [path = '', anchor] = target.split('#')
      const linked = path === '' ? file : join(dirname(file), path)
      if (!existsSync(linked)) return true
      return anchor !== undefined && !anchorsOf(linked).includes(anchor)
    })
    .map((target) => `${relative(root, file)}: ${target}`)
}

describe('links in the documentation', () => {
  it('every relative link leads to an existing file and heading', () => {
    const pages = [
      'README.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'llms.txt',
      'examples/README.md',
      'skills/mcp-gatekit/SKILL.md',
    ].concat(
      readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`),
    )
    expect(pages).to.have.length.above(10)
    expect(pages.flatMap((page) => brokenLinks(join(root, page)))).to.deep.equal([])
  })

  it('every page of docs is reachable from docs/README.md or CONTRIBUTING.md', () => {
    const reached = new Set<string>()
    const queue = ['docs/README.md', 'CONTRIBUTING.md']
    for (const page of queue) {
      if (reached.has(page)) continue
      reached.add(page)
      const targets = textOf(join(root, page)).matchAll(/\]\((?!https:)([^)\s#]+\.md)(?:#[^)]*)?\)/g)
      for (const [, target = ''] of targets) queue.push(relative(root, join(root, dirname(page), target)))
    }
    const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`)
    expect(pages.filter((page) => !reached.has(page))).to.deep.equal([])
  })
})
