import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../', import.meta.url))

const textOf = (file: string): string => readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```$/gm, '')

/** What the headings of a page are called in links to them. */
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

/** The links of a page that lead to no file, or to no heading in it. */
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

describe('the links in the documentation', () => {
  it('lead to files and headings that are there', () => {
    const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'llms.txt', 'examples/README.md'].concat(
      readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md') && !name.includes('api'))
        .map((name) => `docs/${name}`),
    )
    expect(pages).to.have.length.above(10)
    expect(pages.flatMap((page) => brokenLinks(join(root, page)))).to.deep.equal([])
  })
})
