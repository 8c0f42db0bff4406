import { expect } from 'chai'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { serveStdio } from '../../../src/mcp/stdio/serve-stdio.ts'
import { type ExpectedConfigError, expectConfigError } from '../../support/config-error.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION' as const
const tool = (config: object) =>
  KitMcpRouter.create().tool('import', { description: 'x', ...config } as never, () => 'done')

const WRONG: readonly (readonly [string, () => unknown, ExpectedConfigError])[] = [
  [
    'ttlMs of a tool without task',
    () => tool({ ttlMs: 5 }),
    {
      code: INVALID,
      option: "ttlMs of tool 'import'",
      message: /^ttlMs of tool 'import' can be used only with the option task\. Set task to 'optional' or/,
    },
  ],
  [
    'a required task of a public tool',
    () => tool({ task: 'required', public: true }),
    {
      code: INVALID,
      option: "task of tool 'import'",
      message: /must not be 'required' for a public tool.* Set task to 'opt/,
    },
  ],
  [
    'tasks of a router function',
    () => createMcpAdapter({ router: () => ({}) as never, tasks: {} }),
    { code: INVALID, option: 'tasks', message: /^tasks can be used only with a KitMcpRouter/ },
  ],
  [
    'a store without methods',
    () => createMcpAdapter({ router: tool({}), tasks: { store: {} as never } }),
    { code: INVALID, option: 'tasks.store', message: /^tasks\.store must be a store, such as the result of/ },
  ],
  [
    'a required task over stdio',
    () => serveStdio(tool({ task: 'required' })),
    {
      code: INVALID,
      option: "task of tool 'import'",
      message: /^task of tool 'import' must not be 'required' over stdio/,
    },
  ],
]

describe('mcp/tasks: options', () => {
  for (const [what, build, expected] of WRONG)
    it(`${what} is a configuration error`, () => {
      expectConfigError(build, expected)
    })

  it('a tool with an optional task is accepted by every builder', () => {
    expect(() => createMcpAdapter({ router: tool({ task: 'optional', ttlMs: 1 }) })).not.to.throw()
  })
})
