import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { get, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { parseAst } from 'rolldown/parseAst'
import { consentPage } from '../../cli/dev/consent-page.ts'
import { type ConsoleServer, startConsoleServer } from '../../cli/dev/console-server.ts'
import { EventLog } from '../../cli/dev/events/event-log.ts'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import { Secrets } from '../../cli/doctor/quote.ts'
import { textReport } from '../../cli/doctor/report.ts'
import { html, span } from '../../cli/html.ts'
import { run } from '../../cli/run.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { look, startTarget } from '../support/cli/doctor-target.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { listen } from '../support/listen.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

/** Characters that control a terminal, end a line, or reverse the direction of a string. */
const STEERING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

function seenOf({ checks }: DoctorReport, id: string): string {
  return checks.find((check) => check.id === id)?.seen ?? ''
}

/** Expects that the report can be printed: no control character of the server is in it, and no check is endless. */
function expectPrintable(report: DoctorReport): void {
  for (const { id, seen, hint: fix = '' } of report.checks) {
    expect(seen, id).not.to.match(STEERING)
    expect(fix, id).not.to.match(STEERING)
    expect(seen.length, id).to.be.at.most(4_001)
    expect(seen, id).not.to.contain('this check itself failed')
  }
  expect(textReport(report, false).replaceAll('\n', '')).not.to.match(STEERING)
}

/** A server whose metadata document is `document`. */
async function documented(document: (url: string) => unknown) {
  const target = await startTarget({
    instead: ({ path }) =>
      path.startsWith('/.well-known/')
        ? { headers: JSON_TYPE, body: JSON.stringify(document(target.url.href)) }
        : undefined,
  })
  return target
}

describe('attacks on the command line', function () {
  this.timeout(60_000)

  it('doctor: escape sequences of 8 bits in the media type: they are not printed', async () => {
    const target = await startTarget({
      instead: () => ({ headers: { 'content-type': 'text/\x9b2J\x9d0;title\x9c' }, body: 'x' }),
    })
    const report = await look(target.url)
    expect(seenOf(report, 'server.endpoint')).to.match(/^200 text\/ 2j 0,/)
    expectPrintable(report)
  })

  it('doctor: escape sequences in every member of the metadata: they are not printed', async () => {
    const evil = '\x1b[2J\x07\u202e\u2028\x9b31m'
    const target = await documented((url) => ({
      resource: `${url}?${evil}`,
      authorization_servers: [`https://a.example/${evil}`, evil],
      scopes_supported: [evil],
      bearer_methods_supported: [evil],
    }))
    expectPrintable(await look(target.url))
  })

  it('doctor: 100,000 authorization servers: the report stays short', async () => {
    const target = await documented((url) => ({
      resource: url,
      authorization_servers: Array.from({ length: 100_000 }, (_, index) => `http://${index}.example`),
    }))
    const report = await look(target.url)
    expect(seenOf(report, 'metadata.authorization-servers')).to.match(/ and 99988 more$/)
    expectPrintable(report)
  })

  it('doctor: an issuer of 1 MiB: the report stays short', async () => {
    const target = await documented((url) => ({
      resource: url,
      authorization_servers: [`http://127.0.0.1:9/${'a'.repeat(1_048_576)}`],
    }))
    const report = await look(target.url)
    expectPrintable(report)
    expect(JSON.stringify(report).length).to.be.below(100_000)
  })

  it('doctor: metadata nested 100,000 levels deep: the report only names the document', async () => {
    const depth = 100_000
    const target = await startTarget({
      instead: ({ path }) =>
        path.startsWith('/.well-known/')
          ? {
              headers: JSON_TYPE,
              body: `{"resource":"${target.url.href}","authorization_servers":[${'['.repeat(depth)}${']'.repeat(depth)}]}`,
            }
          : undefined,
    })
    const report = await look(target.url)
    expect(seenOf(report, 'metadata.authorization-servers')).to.contain('a deeply nested value')
    expectPrintable(report)
  })

  it('doctor: the token after 150 characters, so that the quotation cuts it: no part of the token is printed', async () => {
    const token = 'q7Zk3vXw9Lr2Tn5Bd8Hs1Mf4Jg6Pc0Yu'
    const target = await startTarget({
      alter: (answer, { headers }) => {
        if (headers.authorization === `Bearer ${token}`)
          answer.headers['www-authenticate'] = `Bearer error="${'x'.repeat(150)}${token}"`
      },
    })
    const report = await look(target.url, { token })
    expect(seenOf(report, 'token.accepted')).to.match(/^401, x{150}\[secret\]…: "/)
  })

  it('doctor: an error_description of 1 MiB of escape sequences and parts of the token, in the body: it is cut, and no part of the token is printed', async () => {
    const target = await startTarget({
      alter: (answer, { headers }) => {
        const token = headers.authorization?.slice('Bearer '.length)
        if (token === undefined || answer.status !== 401) return
        answer.headers['www-authenticate'] = 'Bearer'
        const parts = [token, token.split('.')[1], token.split('.')[2]].join('\x1b[2J')
        answer.body = JSON.stringify({ error_description: parts + '\x9b31m'.repeat(200_000) })
      },
    })
    const issuer = createTestIssuer({ issuer: target.issuer, audience: 'https://a.example' })
    const token = await issuer.issueToken()
    const report = await look(target.url, { token })
    expect(seenOf(report, 'token.accepted')).to.match(/^401 application\/json: "\[secret\].{0,150}…"$/)
    expect(seenOf(report, 'token.claims')).to.contain('aud is https://a.example, expected ')
    expectPrintable(report)
    expectNoSecret(report, [token, ...token.split('.').slice(1)])
  })

  it('doctor: a secret with half a surrogate pair: it is redacted like any other secret', () => {
    const secrets = new Secrets()
    secrets.add('abcd\ud800efgh')
    expect(secrets.erase('it is abcd\ud800efgh')).to.equal('it is [secret]')
  })

  it('doctor: an authorization server that responds to the registration with 64 MiB: the doctor stops reading the response', async () => {
    let sent = 0
    const registration = await listen((req, res) => {
      res.writeHead(201, JSON_TYPE)
      const write = (): void => {
        while (sent < 64 * 1_048_576 && !res.destroyed) {
          sent += 65_536
          if (!res.write(' '.repeat(65_536))) return void res.once('drain', write)
        }
        res.end('{}')
      }
      req.resume().on('end', write)
    })
    const target = await startTarget({
      issuer: (document) => Object.assign(document, { registration_endpoint: registration.origin }),
    })
    const report = await look(target.url, { login: { redirectPort: 0 } })
    expect(seenOf(report, 'token.login')).to.match(/^the sign-in failed/)
    expect(sent).to.be.below(32 * 1_048_576)
  })

  it('doctor: an authorization endpoint of 1 MiB: its URL is not printed', async () => {
    const target = await startTarget({
      issuer: (document) => {
        document.authorization_endpoint += `?${'a'.repeat(1_048_576)}`
      },
    })
    const printed: string[] = []
    const login = { redirectPort: 0, clientId: 'doctor' }
    const report = await look(target.url, { login, print: (line) => printed.push(line) })
    expect(seenOf(report, 'token.login')).to.match(/^the sign-in URL has \d+ characters$/)
    expect(printed).to.deep.equal([])
  })

  it('doctor: a redirect of the metadata to another host: the token is not sent there', async () => {
    const received: (string | undefined)[] = []
    const other = await listen((req, res) => {
      received.push(req.headers.authorization)
      res.end('{}')
    })
    const target = await startTarget({
      instead: ({ path }) =>
        path.startsWith('/.well-known/')
          ? { status: 302, headers: { location: `${other.origin}/stolen` } }
          : undefined,
    })
    await look(target.url, { token: target.token })
    expect(received).not.to.have.length(0)
    expect(received.filter((header) => header !== undefined)).to.deep.equal([])
  })

  describe('dev', () => {
    let server: ConsoleServer
    beforeEach(async () => {
      const log = new EventLog({ command: 'server.ts' })
      server = await startConsoleServer(log, { number: 0, orAnother: false })
    })
    afterEach(() => server.close())

    async function ask(path: string, headers: Readonly<Record<string, string>>): Promise<IncomingMessage> {
      const req = request(new URL(path, server.url), { headers })
      req.end()
      const [res] = (await once(req, 'response')) as [IncomingMessage]
      res.resume()
      return res
    }

    const event = (name: string) => ({ name, time: '', level: 'info', sessionId: '' })
    const feed = (events: readonly unknown[]): Promise<Response> =>
      fetch(server.feedUrl, { method: 'POST', body: JSON.stringify({ sender: {}, events }) })

    it('dev: HTML in everything that the consent page shows: the page shows it as text', () => {
      const evil = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&`
      const page = consentPage({
        client: evil,
        redirectTo: evil,
        resource: evil,
        scopes: [evil, evil],
        user: evil,
      })
      const harmless = consentPage({
        client: 'x',
        redirectTo: 'x',
        resource: 'x',
        scopes: ['x', 'x'],
        user: 'x',
      })
      expect(page).not.to.contain('<script').and.not.to.contain('<img')
      expect(page.match(/</g)).to.have.length(harmless.match(/</g)?.length as number)
      expect(page.match(/"/g)).to.have.length(harmless.match(/"/g)?.length as number)
    })

    it('dev: HTML in an event: the console page shows it as text', async () => {
      const evil = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&`
      const pageOf = (value: string) => {
        const part = html`<b title="${value}">${value}</b>`
        return html`<p id="${value}">${part}${[part]}${span('x', value)}</p>`.text
      }
      expect(pageOf(evil)).not.to.contain('<script').and.not.to.contain('<img')
      for (const special of [/</g, /"/g])
        expect(pageOf(evil).match(special)).to.have.length(pageOf('x').match(special)?.length as number)
      // Only `html` makes HTML, and only one file puts it into the page.
      const folder = new URL('../../../cli/dev/', import.meta.url)
      for (const file of await readdir(folder, { recursive: true })) {
        if (!file.endsWith('.js')) continue
        const source = await readFile(new URL(file, folder), 'utf8')
        expect(source, file).not.to.match(
          /setHTMLUnsafe|createContextualFragment|document\.write|\beval\(|new Function/,
        )
        expect(source, file).not.to.match(/new Html\(/)
        if (!file.endsWith('browser.js'))
          expect(source, file).not.to.match(/innerHTML|outerHTML|insertAdjacentHTML/)
      }
      const { headers } = await ask('/', {})
      expect(headers['content-security-policy']).to.match(/^default-src 'none'; script-src 'self';/)
    })

    for (const [attack, headers] of [
      ['a page whose host name was rebound to this machine', { host: 'evil.example' }],
      ['a page of another origin', { origin: 'https://evil.example' }],
      ['an opaque page', { origin: 'null' }],
      ['a script tag of another site', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }],
    ] as const)
      it(`dev: ${attack} reads the events: 403`, async () =>
        expect((await ask('/events', headers)).statusCode).to.equal(403))

    it('dev: events without the key of the feed: 404', async () => {
      const { status } = await fetch(new URL('/feed/00000000000000000000000000000000', server.url), {
        method: 'POST',
        body: '{"sender":{},"events":[]}',
      })
      expect(status).to.equal(404)
    })

    it('dev: 200,000 events at once: the latest 2,000 are kept', async () => {
      const { status } = await feed(Array.from({ length: 200_000 }, () => event('a.b')))
      expect(status).to.equal(204)
      const res = await new Promise<IncomingMessage>((resolve) =>
        get(new URL('/events', server.url), resolve),
      )
      let text = ''
      for await (const chunk of res.setEncoding('utf8')) {
        text += chunk
        if (text.includes('event: stories')) break
      }
      expect(text.match(/"name":"a\.b"/g)).to.have.length(2_000)
    })

    it('dev: 33 event streams: 503 for the last one', async () => {
      const statuses: (number | undefined)[] = []
      for (let index = 0; index < 33; index++) statuses.push((await ask('/events', {})).statusCode)
      expect(statuses).to.deep.equal([...Array.from({ length: 32 }, () => 200), 503])
    })
  })

  describe('init', () => {
    let scratch: string
    before(async () => {
      scratch = await mkdtemp(join(tmpdir(), 'mcp-gatekit-attack-'))
    })
    after(() => rm(scratch, { recursive: true, force: true }))

    for (const [index, evil] of [
      "'",
      '"',
      '\\',
      "\\'",
      '${',
      '`',
      '\\u0027',
      '*/',
      '//',
      '\u2028',
      '$&',
    ].entries())
      it(`init: an issuer with ${JSON.stringify(evil)}: it is one string in the created program, or an error`, async () => {
        const issuer = `https://auth.example.com/${evil}`
        const folder = join(scratch, String(index))
        const output = { write: () => true }
        const exitCode = await run(['init', folder, '--issuer', issuer], {
          stdout: output,
          stderr: output,
          env: {},
        })
        if (exitCode === 2) return
        const strings = stringsOf(parseAst(await readFile(join(folder, 'server.ts'), 'utf8'), { lang: 'ts' }))
        expect(strings).to.include(issuer)
      })
  })
})

/** Returns the values of all string literals of a syntax tree. */
function stringsOf(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  const { type, value } = node as { type?: unknown; value?: unknown }
  if (type === 'Literal' && typeof value === 'string') return [value]
  return Object.values(node).flatMap(stringsOf)
}
