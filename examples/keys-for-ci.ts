// OAuth for people, and two ways for jobs of a CI system, at one endpoint:
// - a fixed key, for systems that can only store a secret. Create one, and keep only its hash here:
//
//     key="ci_$(openssl rand -hex 32)"; echo "$key"; printf %s "$key" | sha256sum
//
// - the signed token of a job, such as the OpenID Connect token of GitHub Actions. Nothing has to be stored or rotated
import { createHash, timingSafeEqual } from 'node:crypto'
import express from 'express'
import {
  createMcpAdapter,
  firstMatch,
  jwtVerifier,
  KitMcpRouter,
  mcpServer,
  type VerifyToken,
} from 'mcp-gatekit'
import { settings } from './settings.ts'

const { ISSUER, RESOURCE, CI_KEY_SHA256, CI_KEY_EXPIRES, CI_ISSUER, CI_REPOSITORY } = settings({
  ISSUER: 'the authorization server for people, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
  CI_KEY_SHA256: 'the SHA-256 of the key for CI, in hex',
  CI_KEY_EXPIRES: 'the date on which the key expires, such as 2027-01-31',
  CI_ISSUER: 'the issuer of the tokens of jobs, such as https://token.actions.githubusercontent.com',
  CI_REPOSITORY: 'the repository whose jobs may use this server, such as acme/shop',
})

/** The scopes of all jobs. Give them only what they need. */
const CI_SCOPES = ['mcp:read']

interface CiUser {
  readonly id: string
}

const expected = Buffer.from(CI_KEY_SHA256, 'hex')
const expiresAt = Date.parse(CI_KEY_EXPIRES) / 1000
if (expected.length !== 32 || Number.isNaN(expiresAt))
  throw new Error('CI_KEY_SHA256 must be 64 hex digits, and CI_KEY_EXPIRES must be a date.')

const verifyCiKey: VerifyToken<unknown, CiUser> = async ({ bearerToken }) => {
  // The prefix keeps other tokens away, and lets secret scanners find the key.
  if (bearerToken === undefined || !/^ci_[0-9a-f]{64}$/.test(bearerToken)) return undefined
  const hash = createHash('sha256').update(bearerToken).digest()
  if (!timingSafeEqual(hash, expected)) return undefined
  return { valid: true, user: { id: 'ci-key' }, clientId: 'ci-key', scopes: CI_SCOPES, expiresAt }
}

const verifyJobToken = jwtVerifier({
  issuer: CI_ISSUER,
  audience: RESOURCE,
  requiredClaims: ['sub', 'repository'],
  mapUser: ({ sub, repository }) => ({ id: String(sub), repository }),
})

const verifyJob: VerifyToken<unknown, CiUser> = async (input) => {
  const token = await verifyJobToken(input)
  // Jobs of every repository can get a token for every audience.
  if (token === undefined || token.user?.repository !== CI_REPOSITORY) return undefined
  return { ...token, clientId: 'ci-job', scopes: CI_SCOPES }
}

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user?.id, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    // The key first, because it needs no network.
    verifyToken: firstMatch(
      verifyCiKey,
      verifyJob,
      jwtVerifier({
        issuer: ISSUER,
        audience: RESOURCE,
        requiredClaims: ['sub'],
        mapUser: ({ sub }) => ({ id: String(sub) }),
      }),
    ),
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
