import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import { type CheckReport, type DoctorReport, examine } from '../../../cli/doctor/doctor.ts'
import type { ExaminationOptions } from '../../../cli/doctor/examination.ts'
import type { SafeFetchSettings } from '../../../src/base/http/safe-fetch.ts'
import { protectedResourceRouter } from '../../../src/express/protected-resource-router.ts'
import { jwtVerifier, KitMcpRouter, mcpAuth, mcpCors, mcpHandler } from '../../../src/index.ts'
import { adapterWith, createMcpAdapter } from '../../../src/mcp/adapter.ts'
import type { McpAdapter } from '../../../src/mcp/mcp-adapter.ts'
import type { McpAdapterOptions } from '../../../src/mcp/options.ts'
import type { OAuthOptions } from '../../../src/oauth/options.ts'
import { createTestIssuer, type TestIssuer } from '../../../src/testing/test-issuer.ts'
import { listen } from '../listen.ts'

/** A request to the server. */
export interface Incoming {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  /** The JSON-RPC message in it, if any. */
  readonly message: any
}

/** A response of the server, which a fault can change. */
export interface Outgoing {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: string
}

/** A fault of a server that is correct otherwise. */
export interface Fault {
  /** Returns a response, or `undefined` to forward the request to the server. */
  readonly instead?: (request: Incoming) => Partial<Outgoing> | undefined
  /** Changes the response in place. */
  readonly alter?: (answer: Outgoing, request: Incoming) => void
  readonly oauth?: Partial<OAuthOptions>
  readonly options?: McpAdapterOptions
  /** Changes the metadata of the authorization server in place. */
  readonly issuer?: (document: Record<string, any>) => void
  /** Replaces the response of the authorization server. */
  readonly issuerAnswer?: (
    path: string,
    request: IncomingMessage,
  ) => { status: number; headers?: Record<string, string> } | undefined
  /** Runs before the gate. */
  readonly middleware?: RequestHandler
  /** Removes the gate. */
  readonly open?: true
  /** Replaces the two tools. */
  readonly router?: KitMcpRouter
  /** The access to the network of webhooks. */
  readonly network?: SafeFetchSettings
}

export interface DoctorTarget {
  readonly adapter: McpAdapter
  readonly url: URL
  readonly issuer: string
  /** A token with all scopes. */
  readonly token: string
  /** A token without the scope of the tool `erase`. */
  readonly weakToken: string
  /** Issues another token with the key of the authorization server. */
  readonly issueToken: TestIssuer['issueToken']
  /** The options with which `jwtVerifier` accepts these tokens. */
  readonly verifierOptions: TestIssuer['verifierOptions']
}

const tool = {
  title: 'A tool',
  description: 'A tool',
  annotations: { readOnlyHint: true },
  input: z.object({}),
} as const

const router = KitMcpRouter.create()
  .tool('greet', tool, () => 'Hello!')
  .tool('erase', { ...tool, scopes: ['mcp:write'] }, () => 'Gone.')

/** Starts a server with an authorization server. Both are correct except for the given fault. */
export async function startTarget(fault: Fault = {}): Promise<DoctorTarget> {
  const authorization = await listen((req, res) => {
    const path = req.url ?? ''
    const instead = fault.issuerAnswer?.(path, req)
    const document: Record<string, any> = {
      issuer: authorization.origin,
      authorization_endpoint: `${authorization.origin}/authorize`,
      token_endpoint: `${authorization.origin}/token`,
      registration_endpoint: `${authorization.origin}/register`,
      jwks_uri: `${authorization.origin}/jwks`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
    }
    fault.issuer?.(document)
    const known = path === '/.well-known/oauth-authorization-server' || path === '/jwks'
    const headers = {
      'content-type': 'application/json',
      'access-control-allow-origin': '*',
      'access-control-allow-headers': 'content-type',
    }
    const endpoint = path === '/token' || path === '/register' ? 400 : 404
    const status = req.method === 'OPTIONS' ? 204 : known ? 200 : endpoint
    res.writeHead(instead?.status ?? status, instead?.headers ?? headers)
    res.end(JSON.stringify(path === '/jwks' ? issuer.jwks : document))
  })
  const inner = express()
  inner.set('env', 'test')
  if (fault.middleware !== undefined) inner.use(fault.middleware)
  const behind = await listen(inner)
  const front = await listen(
    (req, res) =>
      void forward(req, behind.port, fault)
        .then(({ status, headers, body }) =>
          res.writeHead(status, headers as Record<string, string>).end(body),
        )
        .catch(() => res.destroy()),
  )
  const url = new URL(`${front.origin}/mcp`)
  const issuer = createTestIssuer({ issuer: authorization.origin, audience: url.href })
  const oauth: OAuthOptions = {
    issuer: authorization.origin,
    resource: url.href,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier(issuer.verifierOptions),
    ...fault.oauth,
  }
  const adapter = adapterWith({ router: fault.router ?? router, oauth, ...fault.options }, fault.network)
  const served = fault.open === true ? createMcpAdapter({ router: openRouter }) : adapter
  const gate = fault.open === true ? [] : [mcpAuth(adapter)]
  inner.use('/mcp', mcpCors(), ...gate, mcpHandler(served))
  inner.use(protectedResourceRouter(adapter))
  return {
    adapter,
    url,
    issuer: authorization.origin,
    token: await issuer.issueToken({ scopes: ['mcp:read', 'mcp:write'] }),
    weakToken: await issuer.issueToken({ scopes: ['mcp:read'] }),
    issueToken: issuer.issueToken,
    verifierOptions: issuer.verifierOptions,
  }
}

const openRouter = KitMcpRouter.create().tool('greet', tool, () => 'Hello!')

async function forward(req: IncomingMessage, port: number, fault: Fault): Promise<Outgoing> {
  const body = (await buffer(req)).toString('utf8')
  const incoming: Incoming = {
    method: req.method ?? '',
    path: (req.url ?? '').split('?', 1)[0] as string,
    headers: req.headers,
    body,
    message: parsed(body),
  }
  const instead = fault.instead?.(incoming)
  if (instead !== undefined) return { status: 200, headers: {}, body: '', ...instead }
  const { method, headers } = req
  const outgoing = httpRequest({ host: '127.0.0.1', port, path: req.url, method, headers, agent: false })
  outgoing.end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  const answer: Outgoing = {
    status: response.statusCode ?? 0,
    headers: { ...response.headers },
    body: (await buffer(response)).toString('utf8'),
  }
  for (const name of ['content-length', 'transfer-encoding', 'connection']) delete answer.headers[name]
  fault.alter?.(answer, incoming)
  return answer
}

function parsed(text: string): any {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Examines a server with all options of doctor. */
export async function examineTarget(
  { url, token, weakToken }: DoctorTarget,
  changes: Partial<ExaminationOptions> = {},
): Promise<DoctorReport> {
  return await look(url, { token, underScopedToken: weakToken, call: 'erase', ...changes })
}

/** Examines any server. */
export async function look(url: URL, changes: Partial<ExaminationOptions> = {}): Promise<DoctorReport> {
  const options = { url, callArguments: {}, timeoutMs: 15000, ignore: [], print: () => undefined, ...changes }
  return await examine(options, () => undefined)
}

/** Returns the report of one check. */
export function findingOf({ checks }: DoctorReport, id: string): CheckReport | undefined {
  return checks.find((check) => check.id === id)
}

/** Returns the IDs of the checks that failed. */
export function failuresOf({ checks }: DoctorReport): string[] {
  return checks.filter(({ status }) => status === 'fail').map(({ id }) => id)
}

/** Returns the findings that are warnings or failures, as `id: status`. */
export function problemsOf({ checks }: DoctorReport): string[] {
  return checks
    .filter(({ status }) => status === 'fail' || status === 'warn')
    .map(({ id, status }) => `${id}: ${status}`)
}
