import { request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { discoverOAuthProtectedResourceMetadata } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import { parseChallenge } from '../support/challenge.ts'
import { CLIENT_KINDS } from '../support/mcp/clients.ts'
import { until } from '../support/until.ts'
import type { RunningProgram } from './running-program.ts'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const PREFLIGHT = {
  origin: 'http://localhost:5173',
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization, content-type',
}

type Server = Pick<RunningProgram, 'origin' | 'resource' | 'issuer'>

/** Calls the tool `greet` with real clients of each protocol revision. */
export async function expectGreetings({ origin, issuer }: Server): Promise<void> {
  const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read'] })
  for (const kind of CLIENT_KINDS) {
    const { client, close } = await kind.connect(origin, { token })
    try {
      // Larger than what body parsers accept by default: 100 KB in Express, 1 MiB in Fastify.
      for (const name of ['Ada', 'A'.repeat(1_500_000)]) {
        const { content } = await client.callTool({ name: 'greet', arguments: { name } })
        expect(content, kind.name).to.deep.equal([
          { type: 'text', text: `Hello, ${name}! You are signed in as ada.` },
        ])
      }
    } finally {
      await close()
    }
  }
}

/** Expects a challenge for a request without a token, and the metadata document at the URL that it names. */
export async function expectChallenge({ origin, resource, issuer }: Server): Promise<void> {
  const refused = await fetch(`${origin}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  })
  expect(refused.status).to.equal(401)
  const { resource_metadata: metadata = '', scope } = parseChallenge(
    refused.headers.get('www-authenticate') ?? '',
  )
  expect(scope).to.equal('mcp:read')
  for (const url of [metadata, origin + WELL_KNOWN, `${origin + WELL_KNOWN}/mcp`]) {
    const response = await fetch(url)
    expect(response.status, url).to.equal(200)
    expect(await response.json())
      .to.include({ resource })
      .and.to.deep.include({ authorization_servers: [issuer.issuer] })
  }
  // A client that does not see the challenge, for example because a gateway renames the header, looks at known paths.
  expect(await discoverOAuthProtectedResourceMetadata(`${origin}/mcp`)).to.include({ resource })
  expect((await fetch(`${origin + WELL_KNOWN}/other`)).status).to.equal(404)
}

/** Expects that pages of other origins may call the server and read what it rejects. */
export async function expectPreflights({ origin }: Server): Promise<void> {
  for (const path of ['/mcp', WELL_KNOWN, `${WELL_KNOWN}/mcp`]) {
    const { status, headers } = await fetch(origin + path, { method: 'OPTIONS', headers: PREFLIGHT })
    expect(status, path).to.equal(204)
    expect(headers.get('access-control-allow-origin'), path).to.equal('*')
    expect(headers.get('access-control-allow-headers')?.toLowerCase(), path).to.include('authorization')
  }
  const refused = await fetch(`${origin}/mcp`, { method: 'POST', headers: { origin: PREFLIGHT.origin } })
  expect(refused.status).to.equal(401)
  expect(refused.headers.get('access-control-expose-headers')).to.match(/\bWWW-Authenticate\b/)
}

/** The beginning of an event stream. */
export interface OpenedStream {
  readonly status: number
  readonly type: string | null
  readonly chunks: readonly string[]
}

/**
 * Asks for an event stream, reads for a time, and closes it.
 * @param ms the time after the headers. Defaults to 0.
 * @throws if the server ends the stream within this time.
 */
export async function openStream({ origin, issuer }: Server, ms = 0): Promise<OpenedStream> {
  const token = await issuer.issueToken({ scopes: ['mcp:read'] })
  const abort = new AbortController()
  const response = await fetch(`${origin}/mcp`, {
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
    signal: abort.signal,
  })
  const chunks: string[] = []
  if (response.ok && response.body !== null) {
    const reading = (async () => {
      for await (const chunk of response.body as ReadableStream<Uint8Array>)
        chunks.push(Buffer.from(chunk).toString())
      throw new Error(`The server has ended the stream after ${JSON.stringify(chunks)}`)
    })()
    await Promise.race([reading, delay(ms)])
    reading.catch(() => undefined)
  }
  abort.abort()
  return { status: response.status, type: response.headers.get('content-type'), chunks }
}

/** Opens and closes more event streams than one user may have open at the same time. */
export async function expectStreamsToClose(server: Server): Promise<void> {
  for (let opened = 0; opened < 40; opened++)
    await until(async () => (await openStream(server)).status === 200, 50)
}

/** The status of a request with a `Host` header of its own, which `fetch` does not send. */
export function statusFor(origin: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(`${origin}/mcp`, { method: 'POST', headers: { host } }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
      .once('error', reject)
      .end()
  })
}
