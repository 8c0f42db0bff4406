import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type * as Ioredis from 'ioredis'
import type * as NodeRedis from 'redis'
import { type Grants, grantsIn } from '../../src/authorization/grants/grants.ts'
import { redisStore, type StoreRedisClient } from '../../src/authorization/store.ts'
import { TemporarilyUnavailableError } from '../../src/authorization/unavailable.ts'
import { counted } from '../../src/base/options/counted.ts'
import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'
import { type CliContext, type Command, CommandFailure, checkUsage, defineCommand } from '../command.ts'
import { quote } from '../doctor/quote.ts'
import { readKeys } from '../keys/command.ts'

const HELP = `Usage: mcp-gatekit grants list <sub>
       mcp-gatekit grants revoke <sub> [<id>]
       mcp-gatekit grants revoke --client <id>

Lists the applications that have access to the account of a user at an authorization facade, or ends the access of one of them,
of all of them, or of one client for all users. <sub> is the claim sub of access tokens, such as 'github|583231'. The Redis at
the URL in REDIS_URL is the store of the facade. Run it in the folder of the server, which has ioredis or redis installed.

Options:
  --keys <file>        the keys of the facade (default: AUTHORIZATION_KEYS_FILE, or keys.json)
  --prefix <text>      the prefix that redisStore has, if it is not the default
  --client <id>        end all access of this client
  --yes                do not ask before access ends
  -h, --help           print this help

Access tokens stop within grants.accessSeconds of the facade. Users can sign in again, unless allow returns false.

Exit codes: 0 if it worked, 1 if it did not or the answer was no, 2 for an invalid command line.
`

/** Runs `mcp-gatekit grants …`. */
export const grantsCommand: Command = defineCommand(HELP, async (args, context) => {
  const [action, sub = '', id, ...others] = args.positionals
  const client = args.text('client', (text) => text !== '', 'be the id of a client')
  const isRevoke = action === 'revoke'
  checkUsage(isRevoke || action === 'list', 'expected grants list <sub> or grants revoke <sub>')
  const isAlone = isRevoke && args.positionals.length === 1
  checkUsage(client === undefined || isAlone, '--client requires revoke without a user')
  checkUsage(!!(client || sub), "the user is missing. Add the claim sub of tokens, such as 'github|583231'")
  checkUsage(id !== '', 'the id of the grant is empty. Leave it out to end all grants of the user')
  checkUsage(others.length === 0 && (isRevoke || id === undefined), 'unexpected argument. Use quotes')
  const { REDIS_URL = '', AUTHORIZATION_KEYS_FILE } = context.env
  checkUsage(/^rediss?:\/\//.test(REDIS_URL), 'REDIS_URL must be a URL such as redis://127.0.0.1:6379')
  const file = args.text('keys') ?? (AUTHORIZATION_KEYS_FILE || 'keys.json')
  const keys = await readKeys(file).catch((error: Error) => {
    throw new CommandFailure(`${error.message}. Name the file with the keys of the facade with --keys`)
  })
  const [redis, close] = await connect(REDIS_URL)
  const read = { true: 0, false: 0 }
  try {
    const store = redisStore(redis, args.text('prefix'))
    const grants = grantsIn(store, keys, (isReadable) => read[`${isReadable}`]++)
    const found = await grants.ofUser(sub)
    const count = client === undefined ? found.length : await grants.countOfClient(client)
    if (read.false > 0 && read.true === 0)
      throw new CommandFailure(`the keys in ${file} do not open the stored grants. Use --keys`)
    if (!isRevoke) context.stdout.write(listText(sub, found))
    else {
      const whose = client === undefined ? quote(sub) : `the client ${quote(client)}`
      const all = `all access of ${whose} (${counted(count, 'grant')})`
      if (!args.has('yes'))
        await confirm(`End ${id === undefined ? all : `the grant ${quote(id)} of ${whose}`}?`, context)
      context.stdout.write(`ended ${counted(await end(grants, sub, id, client), 'grant')}\n`)
    }
    return 0
  } catch (error) {
    if (!(error instanceof TemporarilyUnavailableError)) throw error
    throw new CommandFailure('the Redis at REDIS_URL does not answer. Run the command again')
  } finally {
    close()
  }
})

async function end(grants: Grants, sub: string, id?: string, client?: string): Promise<number> {
  if (client !== undefined) return await grants.endAllOfClient(client)
  if (id === undefined) return await grants.endAllOfUser(sub)
  if (await grants.endOf(sub, id, 'application')) return 1
  throw new CommandFailure('the user has no such grant. See mcp-gatekit grants list')
}

function listText(sub: string, grants: Awaited<ReturnType<Grants['ofUser']>>): string {
  const lines = grants.map(
    ({ id, client, scopes, createdAt, lastUsedAt }) =>
      `\n${id}\n  client: ${quote(client.name)} at ${quote(client.host)}, ${quote(client.id)}\n` +
      `  scopes: ${quote(scopes.join(' '))}\n  signed in ${createdAt}, last used ${lastUsedAt}\n`,
  )
  return `${quote(sub)} has ${counted(grants.length, 'grant')}\n${lines.join('')}`
}

/** @throws {CommandFailure} unless the next line of the input is y or yes */
async function confirm(question: string, { stderr }: CliContext): Promise<void> {
  stderr.write(`${question} [y/N] `)
  const lines = createInterface({ input: process.stdin })
  const { value } = await lines[Symbol.asyncIterator]().next()
  lines.close()
  if (!/^y(es)?$/i.test(String(value).trim()))
    throw new CommandFailure('nothing was ended. Answer y, or pass --yes')
}

/** Connects with the library of the project. No error contains the URL, which can have a password. @throws {CommandFailure} */
async function connect(url: string): Promise<[client: StoreRedisClient, close: () => void]> {
  const load = createRequire(join(process.cwd(), 'package.json'))
  const [ioredis, redis] = ['ioredis', 'redis'].map((name) => tryOrUndefined<unknown>(() => load(name)))
  const causes: unknown[] = []
  const note = (error: unknown) => causes.push(error)
  try {
    if (ioredis !== undefined) {
      const once = { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null }
      const client = new (ioredis as typeof Ioredis).Redis(url, once)
      await client.on('error', note).connect()
      return [client, () => client.disconnect()]
    }
    if (redis !== undefined) {
      const once = { url, socket: { reconnectStrategy: false } } as const
      const client = (redis as typeof NodeRedis).createClient(once)
      await client.on('error', note).connect()
      return [client as StoreRedisClient, () => client.destroy()]
    }
  } catch (error) {
    const { code, message } = (causes[0] ?? error) as { readonly code?: unknown; readonly message?: unknown }
    const reason = /^[A-Z]{3,20}\b/.exec(String(code ?? message))?.[0] ?? 'unusable'
    throw new CommandFailure(`cannot connect to the Redis at REDIS_URL (${reason})`)
  }
  throw new CommandFailure('neither ioredis nor redis is installed here. Use the folder of the server')
}
