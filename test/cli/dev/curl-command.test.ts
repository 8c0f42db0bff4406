import { execFileSync } from 'node:child_process'
import { expect } from 'chai'
import express from 'express'
import { z } from 'zod'
import { curlCommand } from '../../../cli/dev/curl-command.ts'
import { createMcpAdapter, KitMcpRouter, mcpServer } from '../../../src/index.ts'
import { listen } from '../../support/listen.ts'

/** The arguments that the command sends, as a shell passes them. */
function argumentsOf(command: string | undefined): unknown {
  const words = execFileSync('sh', ['-c', `curl() { printf '%s\\n' "$@"; }; ${command}`], {
    encoding: 'utf8',
  })
  return JSON.parse(words.trim().split('\n').at(-1) as string).params
}

const readOnly = { readOnlyHint: true }

describe('the curl command of dev', () => {
  const ROUTERS = [
    [
      'calls the first tool that only reads, with a value for each required member',
      KitMcpRouter.create()
        .tool('erase', { description: 'Erases' }, () => 'gone')
        .tool(
          'find',
          {
            description: 'Finds',
            annotations: readOnly,
            input: z.object({
              text: z.string(),
              limit: z.int(),
              order: z.enum(['up', 'down']),
              deep: z.object({ on: z.boolean(), tags: z.array(z.string()) }),
              page: z.string().optional(),
            }),
          },
          () => 'found',
        ),
      { name: 'find', arguments: { text: 'Ada', limit: 1, order: 'up', deep: { on: true, tags: [] } } },
    ],
    [
      'calls the first tool, if no tool only reads',
      KitMcpRouter.create()
        .tool('one', { description: 'One' }, () => '1')
        .tool('two', { description: 'Two' }, () => '2'),
      { name: 'one', arguments: {} },
    ],
    [
      'passes quotes and escape characters of a schema as JSON, and not to the shell',
      KitMcpRouter.create().tool(
        'say',
        { description: 'Says', input: z.object({ text: z.enum([`'; touch /tmp/x; \u009b31m "$(id)" 'ä`]) }) },
        () => 'said',
      ),
      { name: 'say', arguments: { text: `'; touch /tmp/x; \u009b31m "$(id)" 'ä` } },
    ],
  ] as const
  for (const [what, router, expected] of ROUTERS) {
    it(what, async () => {
      const app = express().use(mcpServer(createMcpAdapter({ router })))
      const { origin } = await listen(app)
      const command = await curlCommand(`${origin}/mcp`, 'the-token')
      expect(command)
        .to.match(/^[ -~]+$/)
        .and.contain("-H 'Authorization: Bearer the-token'")
      expect(argumentsOf(command)).to.deep.equal(expected)
    })
  }

  const WITHOUT = [
    ['lists no tool', { jsonrpc: '2.0', id: 1, result: { tools: [] } }],
    [
      'names a tool like a command',
      { jsonrpc: '2.0', id: 1, result: { tools: [{ name: "x'; id; '", inputSchema: {} }] } },
    ],
    ['answers with an error', { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'No' } }],
    ['answers with other JSON', [null]],
  ] as const
  for (const [what, body] of WITHOUT) {
    it(`there is none for a server that ${what}`, async () => {
      const { origin } = await listen(express().use((_req, res) => void res.json(body)))
      expect(await curlCommand(`${origin}/mcp`, 'the-token')).to.equal(undefined)
    })
  }
})
