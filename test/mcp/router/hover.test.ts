import { expect } from 'chai'
import { LanguageServer } from '../../support/language-server.ts'

const SAMPLE = 'test/mcp/router/hover-sample.ts'

interface Expected {
  readonly name: string
  readonly text: string
  readonly line: number
  readonly character: number
}

/** Returns the expectations of the `//?` lines of the sample, each with the place of its name in the code above. */
function expectations(source: string): Expected[] {
  const lines = source.split('\n')
  return lines.flatMap((line, index) => {
    const [, text = '', name = ''] = /^\s*\/\/\? ((\w+): .*)$/.exec(line) ?? []
    if (name === '') return []
    const isCode = (above: string): boolean =>
      !/^\s*\/\//.test(above) && new RegExp(`\\b${name}\\b`).test(above)
    const at = lines.findLastIndex((above, place) => place < index && isCode(above))
    return { name, text, line: at, character: lines[at]?.search(new RegExp(`\\b${name}\\b`)) ?? 0 }
  })
}

/** The code of a hover in one line, without the documentation, nor what kind of thing it is about. */
function typeIn(hover: string): string {
  const [, code = hover] = /```\w*\n([\s\S]*?)\n```/.exec(hover) ?? []
  return code.replace(/^\(?(?:parameter|const)\)? /, '').replace(/\s+/g, ' ')
}

/** Mistakes, one a line, and what the compiler says in the end. */
const MISTAKES: Readonly<Record<string, string>> = {
  "router.tool('a', { description: 'x', output }, () => ({ sum: 'x' }))":
    "Type 'string' is not assignable to type 'number'.",
  "router.tool('a', { description: 'x', output }, async () => ({ total: 1 }))":
    "Type '{ total: number; }' is not assignable to type 'ToolResult'.",
  "router.tool('a', { description: 'x', input: output }, ({ total }) => total)":
    "Property 'total' does not exist on type '{ sum: number; }'.",
  "router.tool('a', { description: 'x', scope: ['mcp:read'] }, () => 'x')": "Did you mean to write 'scopes'?",
  "router.prompt('a', {}, () => 5)":
    "Type 'number' is not assignable to type 'Promise<PromptResult> | PromptResult'.",
  "router.prompt('a', {}, () => ({ messages: 'x' }))":
    "Type 'string' is not assignable to type 'WrittenMessage[]'.",
  "router.resourceTemplate('a', { uriTemplate: 'a://{b}', list: () => [{ name: 'x' }] }, () => 'x')":
    "Type '{ name: string; }' is not assignable to type 'ListedResource'.",
  "router.resourceTemplate('a', { uriTemplate: 'a://{b}' }, (_uri, { c }) => c)":
    "Property 'c' does not exist on type '{ readonly b: string; }'.",
  "KitMcpRouter.create().merge('a', router)":
    'the merged router needs a context that this router does not make',
}

describe('mcp: what an editor shows', function () {
  this.timeout(60_000)
  let server: LanguageServer
  before(async () => {
    server = await LanguageServer.start()
  })
  after(() => server.stop())

  it('an editor shows readable types of arguments, contexts, and results', async () => {
    const { text, hover } = server.open(SAMPLE)
    const expected = expectations(text)
    const shown = await Promise.all(
      expected.map(async ({ line, character }) => typeIn(await hover(line, character))),
    )
    expect(shown).to.deep.equal(expected.map((one) => one.text))
    expect(expected).to.have.length.above(25)
  })

  it('an editor names the problem of a mistake', async () => {
    const preamble = [
      "import { z } from 'zod'",
      "import { KitMcpRouter } from '../../../src/index.ts'",
      'const output = z.object({ sum: z.number() })',
      'const router = KitMcpRouter.create().context(() => ({ db: 1 }))',
    ]
    const text = [...preamble, ...Object.keys(MISTAKES)].join('\n')
    const errors = await server.open('test/mcp/router/hover-mistakes.ts', text).errors()
    const lines = errors.map(({ line }) => line)
    expect(lines).to.deep.equal(Object.keys(MISTAKES).map((_, index) => preamble.length + index))
    for (const [index, said] of Object.values(MISTAKES).entries()) {
      expect(errors[index]?.message).to.contain(said)
    }
  })
})
