import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { exportJWK, type JWK, type JWTPayload, SignJWT } from 'jose'
import type { VerifyTokenInput } from '../../src/oauth/gate-values.ts'
import { listen, stopListening } from './listen.ts'

export const ISSUER = 'https://auth.example.com'
export const AUDIENCE = 'https://mcp.example.com/mcp'

/** A key pair that signs with one algorithm. */
export interface SigningKey {
  readonly alg: string
  readonly kid: string
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject
  /** The public key with `kid`, `alg` and `use`, as in a JWK Set. */
  readonly jwk: JWK
}

/** Creates an RSA, elliptic curve, or Edwards curve key pair for `alg`. */
export async function createSigningKey(alg: string, kid: string): Promise<SigningKey> {
  const { publicKey, privateKey } = keyPairFor(alg)
  return { alg, kid, publicKey, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

function keyPairFor(alg: string): { publicKey: KeyObject; privateKey: KeyObject } {
  if (alg === 'EdDSA') return generateKeyPairSync('ed25519')
  if (alg.startsWith('ES')) return generateKeyPairSync('ec', { namedCurve: CURVES[alg] as string })
  return generateKeyPairSync('rsa', { modulusLength: 2048 })
}

const CURVES: Readonly<Record<string, string>> = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }

export const nowSeconds = (): number => Math.floor(Date.now() / 1000)

/** Changes to the usual claims. `undefined` removes a claim. */
export type ClaimChanges = Readonly<Record<string, unknown>>

/** Returns the claims of a token that is valid for five minutes. */
export function claimsWith(changes: ClaimChanges = {}): JWTPayload {
  const usual = { iss: ISSUER, aud: AUDIENCE, sub: 'ada', iat: nowSeconds(), exp: nowSeconds() + 300 }
  const claims: Record<string, unknown> = { ...usual, ...changes }
  for (const name of Object.keys(claims)) if (claims[name] === undefined) delete claims[name]
  return claims
}

/** Signs a token. `header` adds to `alg` and `kid`; `kid: undefined` removes the key id. */
export async function signToken(
  key: SigningKey | Uint8Array,
  changes: ClaimChanges = {},
  header: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const usual = key instanceof Uint8Array ? { alg: 'HS256' } : { alg: key.alg, kid: key.kid }
  const protectedHeader: Record<string, unknown> = { ...usual, ...header }
  if (protectedHeader.kid === undefined) delete protectedHeader.kid
  const critical = Object.fromEntries(
    ((header.crit as string[] | undefined) ?? []).map((name) => [name, true]),
  )
  return await new SignJWT(claimsWith(changes))
    .setProtectedHeader(protectedHeader as { alg: string })
    .sign(key instanceof Uint8Array ? key : key.privateKey, { crit: critical })
}

/** Returns the input of a verifier for `bearerToken`, outside a router. */
export function verifyInput(bearerToken: string | undefined): VerifyTokenInput<unknown> {
  const request = new Request('https://mcp.example.com/mcp')
  return { request, bearerToken, context: { context: {}, request } }
}

/** A JWKS endpoint on loopback that counts requests and can fail on demand. */
export interface KeyServer {
  readonly jwksUri: string
  readonly origin: string
  /** The requested paths, in order. */
  readonly asked: readonly string[]
  /** Replaces the keys of the set. */
  serve(...keys: readonly SigningKey[]): void
  /** Sets the response to every request. Without an argument, restores the usual responses. */
  answer(way?: (req: IncomingMessage, res: ServerResponse) => void): void
  stop(): Promise<void>
}

/** Serves `keys` at `/jwks`, and `documents` at their paths. */
export async function startKeyServer(
  keys: readonly SigningKey[],
  documents: (origin: string) => Readonly<Record<string, unknown>> = () => ({}),
): Promise<KeyServer> {
  const asked: string[] = []
  let served = keys
  let way: ((req: IncomingMessage, res: ServerResponse) => void) | undefined
  const { origin, server } = await listen((req, res) => {
    asked.push(req.url ?? '')
    if (way !== undefined) return way(req, res)
    const known: Readonly<Record<string, unknown>> = {
      '/jwks': { keys: served.map((key) => key.jwk) },
      ...documents(origin),
    }
    const document = known[req.url ?? '']
    res.statusCode = document === undefined ? 404 : 200
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify(document ?? {}))
  })
  return {
    jwksUri: `${origin}/jwks`,
    origin,
    asked,
    serve(...next) {
      served = next
    },
    answer(next) {
      way = next
    },
    stop: () => stopListening(server),
  }
}
