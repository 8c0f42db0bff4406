/**
 * `node build/test/week/defects.js [--only <number>] [--seeds 10]` shows that the simulation finds mistakes: it breaks the compiled
 * code in a copy of the project, one place at a time, and reports how many seeds it takes until an invariant fails.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

interface Defect {
  readonly name: string
  /** The file within build/src. */
  readonly file: string
  /** The texts that are replaced, and by what. */
  readonly changes: readonly (readonly [from: string, to: string])[]
}

const DEFECTS: readonly Defect[] = [
  {
    name: 'a refresh token has no grace',
    file: 'authorization/grants/refresh-rotation.js',
    changes: [['Date.now() < at + refreshGraceSeconds * 1000', 'false']],
  },
  {
    name: 'the store replaces a value that it should only add',
    file: 'authorization/store.js',
    changes: [["'PX', PX, ...NX)", "'PX', PX)"]],
  },
  {
    name: 'a session works for every user',
    file: 'mcp/sdk/sessions/sessions.js',
    changes: [['session.owner === owner ?', 'true ?']],
  },
  {
    name: 'a refresh token is named before it is stored',
    file: 'authorization/grants/refresh-rotation.js',
    changes: [
      ['await successor.save();', ''],
      ['return successor;', '{ await successor.save(); return successor; }'],
    ],
  },
  {
    name: 'a queue loses one outcome in a hundred',
    file: 'telemetry/transports/queue/batch-queue.js',
    changes: [['one.outcome.delivered()', 'Math.random() < 0.99 && one.outcome.delivered()']],
  },
  {
    name: 'a revocation leaves the grant as it is',
    file: 'authorization/grants/grants.js',
    changes: [
      ['await keepMark(this.#tokens.grantTtlSeconds);', ''],
      ["take('Grant', id)", "get('Grant', id)"],
      ['await keepMark(this.#tokens.accessTtlSeconds + MARGIN_SECONDS);', ''],
    ],
  },
  {
    name: 'a node asks about a grant only once',
    file: 'authorization/grants/live-access.js',
    changes: [['answer.untilMs = nowMs + accessSeconds * 1000', 'answer.untilMs = Infinity']],
  },
  {
    name: 'scopes are not reduced at a refresh',
    file: 'authorization/sign-in/user-access.js',
    changes: [['requested.filter((scope) => granted.includes(scope))', 'requested']],
  },
  {
    name: 'the tasks of a lost node go on for ever',
    file: 'mcp/tasks/stored-tasks.js',
    changes: [['await this.#guard.ask(() => this.#store.isAlive(node))', 'true']],
  },
  {
    name: 'a second copy of a batch stays in the stream',
    file: 'telemetry/transports/store-stream/store-stream-writer.js',
    changes: [['if (wasLost() &&', 'if (false &&']],
  },
  {
    name: 'a store that was away stays away',
    file: 'oauth/store-guard.js',
    changes: [['if (nowMs < this.#nextAtMs)', 'if (true)']],
  },
  {
    name: 'a code works twice',
    file: 'authorization/server/oidc-adapter.js',
    changes: [
      ['{ ...found, consumed: used } : found', 'found : found'],
      ['throw new this.#context.errors.InvalidGrant(USED_TWICE);', 'return;'],
      ["if (typeof grantId === 'string')", 'if (false)'],
    ],
  },
  {
    name: 'a refused refresh has no event',
    file: 'authorization/server/server.js',
    changes: [
      ["emit('token.refused', { ...event", "event.grant_type === '' && emit('token.refused', { ...event"],
    ],
  },
  {
    name: 'a line of the audit log is not written again after a failure',
    file: 'telemetry/audit/in-order-transport.js',
    changes: [['this.#failed(cause);', 'return this.#failed(cause);']],
  },
  {
    name: 'the grace of a lost node is a hundred times as long',
    file: 'mcp/tasks/stored-tasks.js',
    changes: [['GRACE_MS = 7_000', 'GRACE_MS = 700_000']],
  },
  {
    name: 'a report of a node counts for too short a time',
    file: 'mcp/tasks/stored-tasks.js',
    changes: [['ALIVE_MS = 8_000', 'ALIVE_MS = 1_000']],
  },
  {
    name: 'a proof works again',
    file: 'redis/replay-store.js',
    changes: [['return wasAdded(reply)', 'return wasAdded(reply) || true']],
  },
  {
    name: 'nodes do not share a limit',
    file: 'mcp/operations/limits/limited-table.js',
    changes: [['if (store === undefined)', 'if (true)']],
  },
  {
    name: 'an asynchronous decision of the policy permits',
    file: 'mcp/operations/policy.js',
    changes: [['decision === true ?', 'decision === true || isPromiseLike(returned) ?']],
  },
  {
    name: 'a node does not subscribe again after an outage',
    file: 'redis/broadcast.js',
    changes: [["['ready', () =>", "['ready', () => this.#attempt > 0 ||"]],
  },
  {
    name: 'only the first key of the facade verifies',
    file: 'authorization/facade.js',
    changes: [['keys.signing.map(', 'keys.signing.slice(0, 1).map(']],
  },
  {
    name: 'a webhook misses an event while another one waits',
    file: 'mcp/events/memory-event-store.js',
    changes: [['kept.pending.has(position)', 'kept.pending.size > 0']],
  },
  {
    name: 'node-redis replaces a value that it should only add',
    file: 'authorization/store.js',
    changes: [['NX.length > 0 && { NX: true }', 'NX.length > 9 && { NX: true }']],
  },
  {
    name: 'a webhook that fails counts as delivered',
    file: 'mcp/events/webhooks/webhooks.js',
    changes: [["if (made.kind === 'accepted')", "if (made.kind !== 'refused')"]],
  },
]

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    seeds: { type: 'string', default: '10' },
    hours: { type: 'string', default: '2' },
  },
})

/** Resolves with the virtual time, the invariant that has failed, and the details, or with `undefined`. */
function run(folder: string, seed: number): Promise<string | undefined> {
  const args = [
    'build/test/week/main.js',
    ...['--seed', String(seed), '--hours', values.hours, '--act-every', '7', '--fault-every', '3'],
  ]
  return new Promise((done) => {
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 64 * 2 ** 20 }, (error, output) => {
      const invariant = /^(.+ VIOLATION: .+)$/m.exec(output)?.[1]
      done(error === null ? undefined : (invariant ?? String(error)))
    })
  })
}

for (const [index, { name, file, changes }] of DEFECTS.entries()) {
  if (values.only !== undefined && !values.only.includes(String(index + 1))) continue
  const folder = mkdtempSync(join(tmpdir(), 'mcp-gatekit-defect-'))
  try {
    for (const link of ['node_modules', 'package.json', 'dist'])
      symlinkSync(resolve(link), join(folder, link))
    cpSync('build', join(folder, 'build'), { recursive: true })
    const path = join(folder, 'build/src', file)
    let code = readFileSync(path, 'utf8')
    for (const [from, to] of changes) {
      if (!code.includes(from)) throw new Error(`${file} does not contain ${from}`)
      code = code.replaceAll(from, to)
    }
    writeFileSync(path, code)
    let found: string | undefined
    let seed = 0
    while (found === undefined && seed < Number(values.seeds)) found = await run(folder, ++seed)
    console.log(
      `${index + 1}. ${name}: ${found === undefined ? `NOT FOUND by ${seed} seeds` : `found by seed ${seed}: ${found}`}`,
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
