import { readFileSync } from 'node:fs'
import {
  type AuthorizationFacade,
  type AuthorizationKeys,
  type AuthorizationStore,
  authorizationFacade,
} from 'mcp-gatekit/authorization'
import { telemetry } from './app.ts'
import { ALLOW_LIST, createProvider, isAllowed, SECRETS, type Secrets } from './github.ts'

/**
 * Creates the authorization server at which users sign in with the provider. Returns `undefined` if the secrets are not set.
 * It has the origin of `resource`, so that the redirect URI at the provider is `<origin>/signin/callback`.
 * @param store the store that all nodes share. Without it, a restart ends all sign-ins.
 */
export function createSignIn(resource: string, store?: AuthorizationStore): AuthorizationFacade | undefined {
  const secrets = readSecrets()
  if (secrets === undefined) return undefined
  const { origin } = new URL(resource)
  return authorizationFacade({
    url: origin,
    resource,
    upstream: createProvider(secrets),
    scopes: { 'mcp:read': 'Greet people', 'mcp:write': 'Forget people' },
    // The provider knows who the user is. This function decides who may use the server.
    allow({ claims }) {
      const allowed = readAllowList()
      if (isAllowed(claims, allowed)) return true
      const { sub: id, oid, login } = claims
      console.warn(`Denied a sign-in: ${JSON.stringify({ id, oid, login })}`)
      return {
        deny:
          allowed.length === 0
            ? `No account may sign in, because ${ALLOW_LIST} is empty`
            : `This account is not in ${ALLOW_LIST}`,
      }
    },
    page: { title: 'my-server' },
    keys: readKeys(origin),
    store,
    telemetry,
  })
}

/** Returns the users who may sign in, in lower case. */
export function readAllowList(): readonly string[] {
  const entries = (process.env[ALLOW_LIST] ?? '').split(',')
  return entries.map((entry) => entry.trim().toLowerCase()).filter((entry) => entry !== '')
}

function readSecrets(): Secrets | undefined {
  const missing = SECRETS.filter((name) => !process.env[name])
  if (missing.length === SECRETS.length) return undefined
  if (missing.length > 0) throw new Error(`Set ${missing.join(' and ')}. Only a part of the secrets is set.`)
  return Object.fromEntries(SECRETS.map((name) => [name, process.env[name]])) as Secrets
}

/** Returns the keys that sign and encrypt, or `undefined` on this machine, where new keys at each start are enough. */
function readKeys(url: string): AuthorizationKeys | undefined {
  const { AUTHORIZATION_KEYS, AUTHORIZATION_KEYS_FILE } = process.env
  if (AUTHORIZATION_KEYS) return parseKeys('AUTHORIZATION_KEYS', AUTHORIZATION_KEYS)
  if (AUTHORIZATION_KEYS_FILE)
    return parseKeys(AUTHORIZATION_KEYS_FILE, readFileSync(AUTHORIZATION_KEYS_FILE, 'utf8'))
  // Only the URL of a loopback host may have http.
  if (url.startsWith('http:')) return undefined
  throw new Error(
    'Set AUTHORIZATION_KEYS_FILE to a file with keys. Create one with: npx mcp-gatekit keys --out keys.json',
  )
}

function parseKeys(source: string, text: string): AuthorizationKeys {
  try {
    return JSON.parse(text) as AuthorizationKeys
  } catch {
    // The error of the parser contains a part of the keys.
    throw new Error(`${source} does not contain valid JSON. Create keys with: npx mcp-gatekit keys`)
  }
}
