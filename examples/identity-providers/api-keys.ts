// Your own API keys, for scripts and for clients that can send a fixed header:
//
//   node api-keys.js create ada mcp:read mcp:write     creates a key for Ada and prints it once
//   node api-keys.js                                   starts the server
//
// Without an authorization server, the server publishes no metadata and clients cannot sign in. You give each key to its
// user yourself. A file replaces this table:
//
//   CREATE TABLE api_keys (
//     id         TEXT PRIMARY KEY,
//     hash       TEXT NOT NULL,     -- SHA-256 of the secret; the key itself is not stored
//     user_id    TEXT NOT NULL,
//     scopes     TEXT NOT NULL,
//     expires_at INTEGER NOT NULL   -- seconds since 1970
//   )
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import express from 'express'
import {
  createMcpAdapter,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  VerifierUnavailableError,
  type VerifyToken,
} from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { KEYS_FILE, RESOURCE } = settings({
  KEYS_FILE: 'the file of the hashed keys, such as keys.json; created with the first key',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
})

const DAYS = 90

interface ApiKey {
  readonly hash: string
  readonly userId: string
  readonly scopes: readonly string[]
  /** Seconds since 1970. */
  readonly expiresAt: number
}

/** SELECT * FROM api_keys */
async function readKeys(): Promise<Record<string, ApiKey>> {
  try {
    return JSON.parse(await readFile(KEYS_FILE, 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
}

// Keys are random and cannot be guessed, so a plain hash is sufficient.
const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()

/** INSERT INTO api_keys … */
async function createKey(userId: string, scopes: readonly string[]): Promise<string> {
  const [id, secret] = [randomBytes(9).toString('base64url'), randomBytes(32).toString('base64url')]
  const expiresAt = Math.floor(Date.now() / 1000) + DAYS * 24 * 3600
  const key: ApiKey = { hash: hashOf(secret).toString('hex'), userId, scopes, expiresAt }
  await writeFile(KEYS_FILE, JSON.stringify({ ...(await readKeys()), [id]: key }, null, 2), { mode: 0o600 })
  return `mcp.${id}.${secret}`
}

const verifyKey: VerifyToken<unknown, { id: string }> = async ({ bearerToken }) => {
  const [, id, secret] = /^mcp\.([\w-]{12})\.([\w-]{43})$/.exec(bearerToken ?? '') ?? []
  if (id === undefined || secret === undefined) return undefined
  // SELECT … WHERE id = ?. Runs for each request, so that a deleted key stops working immediately.
  const keys = await readKeys().catch((cause) => {
    throw new VerifierUnavailableError('The keys cannot be read', { cause })
  })
  const key = Object.hasOwn(keys, id) ? keys[id] : undefined
  if (key === undefined || !timingSafeEqual(hashOf(secret), Buffer.from(key.hash, 'hex'))) return undefined
  const { userId, scopes, expiresAt } = key
  return { valid: true, user: { id: userId }, clientId: id, scopes, expiresAt }
}

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user, key: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    // Only this server issues tokens.
    issuer: new URL(RESOURCE).origin,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken: verifyKey,
  },
})

const [command, userId, ...scopes] = process.argv.slice(2)
if (command === 'create' && userId !== undefined) {
  console.log(await createKey(userId, scopes))
} else {
  const app = express()
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
}
