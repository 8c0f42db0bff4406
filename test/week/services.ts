/** The other services of the world: an identity provider, a host of client documents, a collector, and a chat. */
import { createHash, createPrivateKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SignJWT } from 'jose'
import { createServer, serveHttp } from './network.ts'
import { Random } from './random.ts'
import { Machine, sleep } from './time.ts'

export const ISSUER = 'https://id.example.com'
export const CLIENT_ID = 'mcp-server'
export const CLIENT_SECRET = 'the secret of the simulated server'

/** The header in which the browser of a person tells the provider who it is. */
export const PERSON_HEADER = 'x-person'

type Handler = (req: IncomingMessage, body: string, res: ServerResponse) => Promise<void> | void

/** A service that may be down or slow. */
export class Service {
  readonly machine: Machine
  /** The status of all responses, or 0 for the usual ones. */
  failure = 0
  delayMs = 0
  requests = 0

  constructor(host: string, handle: Handler) {
    this.machine = new Machine(host)
    const server = createServer((req, res) => {
      const chunks: Buffer[] = []
      req.on('data', (chunk: Buffer) => chunks.push(chunk))
      req.on('end', async () => {
        this.requests++
        if (this.delayMs > 0) await sleep(this.delayMs)
        if (this.failure > 0) {
          res.writeHead(this.failure, { 'content-type': 'text/plain' }).end('unavailable')
          return
        }
        await handle(req, Buffer.concat(chunks).toString(), res)
      })
    })
    serveHttp(this.machine, host, server)
  }
}

function json(
  res: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

interface Code {
  readonly person: string
  readonly nonce: string | null
  readonly challenge: string
}

/** An OpenID provider. Every person has an account. */
export class IdentityProvider {
  readonly service: Service
  readonly #random: Random
  readonly #codes = new Map<string, Code>()
  #key = { kid: 'key-0', privateKey: keyOf(0) }
  #rotations = 0
  /** The people that the provider knows. */
  readonly people = new Set<string>()

  constructor(seed: number) {
    this.#random = new Random(seed, 'provider')
    this.service = new Service(new URL(ISSUER).host, (req, body, res) => this.#handle(req, body, res))
  }

  /** Replaces the key at once: the old one is not published any more. */
  rotate(): void {
    const number = ++this.#rotations
    this.#key = { kid: `key-${number}`, privateKey: keyOf(number % KEYS.length) }
  }

  async #handle(req: IncomingMessage, body: string, res: ServerResponse): Promise<void> {
    const url = new URL(String(req.url), ISSUER)
    if (url.pathname === '/.well-known/openid-configuration')
      return json(res, 200, {
        issuer: ISSUER,
        authorization_endpoint: `${ISSUER}/authorize`,
        token_endpoint: `${ISSUER}/token`,
        jwks_uri: `${ISSUER}/jwks`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
      })
    if (url.pathname === '/jwks') {
      const { d: _, ...jwk } = this.#key.privateKey.export({ format: 'jwk' })
      return json(res, 200, { keys: [{ ...jwk, kid: this.#key.kid, alg: 'ES256', use: 'sig' }] })
    }
    if (url.pathname === '/authorize') {
      const { searchParams: asked } = url
      const person = String(req.headers[PERSON_HEADER])
      const target = new URL(String(asked.get('redirect_uri')))
      target.searchParams.set('state', String(asked.get('state')))
      target.searchParams.set('iss', ISSUER)
      if (this.people.has(person)) {
        const code = `code-${this.#random.next()}`
        this.#codes.set(code, {
          person,
          nonce: asked.get('nonce'),
          challenge: String(asked.get('code_challenge')),
        })
        target.searchParams.set('code', code)
      } else target.searchParams.set('error', 'access_denied')
      res.writeHead(302, { location: target.href }).end()
      return
    }
    if (url.pathname === '/token') return await this.#token(req, new URLSearchParams(body), res)
    json(res, 404, {})
  }

  async #token(req: IncomingMessage, form: URLSearchParams, res: ServerResponse): Promise<void> {
    const basic = Buffer.from(String(req.headers.authorization).slice('Basic '.length), 'base64').toString()
    const [id, secret] = basic.includes(':')
      ? basic.split(':').map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
      : [form.get('client_id'), form.get('client_secret')]
    if (id !== CLIENT_ID || secret !== CLIENT_SECRET) return json(res, 401, { error: 'invalid_client' })
    const code = String(form.get('code'))
    const found = this.#codes.get(code)
    this.#codes.delete(code)
    const challenge = createHash('sha256')
      .update(String(form.get('code_verifier')))
      .digest('base64url')
    if (found === undefined || found.challenge !== challenge)
      return json(res, 400, { error: 'invalid_grant' })
    const now = Math.floor(Date.now() / 1000)
    const idToken = await new SignJWT({
      iss: ISSUER,
      sub: found.person,
      aud: CLIENT_ID,
      iat: now,
      exp: now + 300,
      ...(found.nonce !== null && { nonce: found.nonce }),
    })
      .setProtectedHeader({ alg: 'ES256', kid: this.#key.kid })
      .sign(this.#key.privateKey)
    json(res, 200, {
      access_token: `upstream-${this.#random.next()}`,
      token_type: 'Bearer',
      expires_in: 3_600,
      refresh_token: `upstream-refresh-${this.#random.next()}`,
      id_token: idToken,
    })
  }
}

/** Fixed keys of the provider and of the facade, so that a run depends on its seed only. They protect nothing. */
const KEYS = [
  {
    kty: 'EC',
    x: 'HJaKQTEXNJYwE3Fp-17NboiSPy0MXTE5wL3idw_hIM4',
    y: 'cYKj8fi-aa3-eHOoEYfFOVUFui0ghXas3OQHLGIi0Rg',
    crv: 'P-256',
    d: '011el-nfXJ7Ebscn535gKNxu2DwUSXK_lr1h_wD7kpo',
  },
  {
    kty: 'EC',
    x: 'fkbSVbM3j1ZYekxI1alZUIDJZkzR5JXimCFAPUM5DdA',
    y: 'NqsDePysyKBOPuXI06sQL3VnSVc3gPvI4xS0Aj-3iYo',
    crv: 'P-256',
    d: 'js6dDWa380bvvK1Ug3XVb7ldDPMae4NGL13K6ysdZX8',
  },
  {
    kty: 'EC',
    x: 'FZWGCA8mqcKH4vAVpRxeYEsEyhzUmx2LPQ1cUM9GtNI',
    y: 'biBQQsjAKcal1b-oa6oGm_ZhFnMSqB0PKfMMVzQP-SQ',
    crv: 'P-256',
    d: 'dZjp30MEAXYWgtbm7iuv2RyS1M6Vl6gJyOnhAtVO4gg',
  },
]

/** A private key of the world. */
export function keyOf(number: number): KeyObject {
  return createPrivateKey({ key: KEYS[number % KEYS.length] as JsonWebKey, format: 'jwk' })
}

/** A host of client metadata documents. */
export class DocumentHost {
  readonly service: Service

  constructor(host: string, documents: ReadonlyMap<string, object>) {
    this.service = new Service(host, (req, _body, res) => {
      const found = documents.get(String(req.url))
      if (found === undefined) json(res, 404, {})
      else json(res, 200, found, { 'cache-control': 'max-age=300' })
    })
  }
}

/** A target of telemetry over HTTP. It keeps the ids of what it has confirmed. */
export class Collector {
  readonly service: Service
  /** How often each event has arrived. */
  readonly events = new Map<string, number>()

  constructor(host: string, read: (body: string) => readonly string[], reply: object) {
    this.service = new Service(host, (_req, body, res) => {
      for (const id of read(body)) this.events.set(id, (this.events.get(id) ?? 0) + 1)
      json(res, 200, reply)
    })
  }
}
