import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, serveStdio } from '../../../src/index.ts'
import { expectConfigError } from '../../support/config-error.ts'

const tool = (config: object) =>
  KitMcpRouter.create().tool('import', { description: 'x', ...config } as never, () => 'done')

const WRONG: readonly (readonly [what: string, build: () => unknown, option: string, message: RegExp])[] = [
  [
    'ttlMs of a tool without task',
    () => tool({ ttlMs: 5 }),
    "ttlMs of tool 'import'",
    /^ttlMs of tool 'import' can be used only with the option task\. Set task to 'optional' or/,
  ],
  [
    'a required task of a public tool',
    () => tool({ task: 'required', public: true }),
    "task of tool 'import'",
    /must not be 'required' for a public tool.* Set task to 'opt/,
  ],
  [
    'tasks of a router function',
    () => createMcpAdapter({ router: () => ({}) as never, tasks: {} }),
    'tasks',
    /^tasks can be used only with a KitMcpRouter/,
  ],
  [
    'a store without methods',
    () => createMcpAdapter({ router: tool({}), tasks: { store: {} as never } }),
    'tasks.store',
    /^tasks\.store must be a store, such as the result of/,
  ],
  [
    'a required task over stdio',
    () => serveStdio(tool({ task: 'required' })),
    "task of tool 'import'",
    /^task of tool 'import' must not be 'required' over stdio/,
  ],
]

describe('mcp/tasks: options', () => {
  for (const [what, build, option, message] of WRONG)
    it(`${what} is a configuration error`, () =>
      expectConfigError(build, { code: 'MCP_CONFIG_INVALID_OPTION', option, message }))

  it('a tool with an optional task is accepted by every builder', () => {
    expect(() => createMcpAdapter({ router: tool({ task: 'optional', ttlMs: 1 }) })).not.to.throw()
  })
})
