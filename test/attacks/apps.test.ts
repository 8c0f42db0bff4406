import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { configError } from '../support/mcp/config-error.ts'
import { onNode, type Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, legacy, modern, rpc } from '../support/mcp/wire.ts'

const SECRET = 'the salary of everybody'
const HTML = `<!doctype html><script>"</script><script>alert(1)</script>"</script><!--${SECRET}\u2028-->`

const router = KitMcpRouter.create()
  .app('chart', { html: HTML, uri: 'ui://payroll/chart.html' })
  .resourceTemplate('any', { uriTemplate: 'ui://{+path}' }, (_uri, { path }) => `open ${path}`)
  .tool('salaries', { description: 'x', app: 'chart', scopes: ['mcp:admin'] }, () => SECRET)

const SPELLINGS = [
  'ui://payroll/chart.html',
  'UI://payroll/chart.html',
  'uI://payroll/%63hart.html',
  'ui://%70ayroll/chart.html',
  'ui://payroll/./chart.html',
  'ui://payroll/x/../chart.html',
  'ui://payroll/x/%2e%2E/chart.html',
  'ui://payroll//chart.html',
  'ui://payroll%2Fchart.html',
  'ui://payroll/chart.html#a',
  'ui://payroll/chart.html?',
  'ui://user@payroll/chart.html',
  'ui://payroll/%2563hart.html',
]

describe('attacks: apps', () => {
  const folder = mkdtempSync(join(tmpdir(), 'apps-'))
  let served: Served
  before(async () => {
    served = await onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() })))
  })
  after(async () => {
    await served.close()
    rmSync(folder, { recursive: true })
  })

  const path = (name: string): string => join(folder, name)
  const problemOf = (file: string): string =>
    configError(() => KitMcpRouter.create().app('chart', { file })).message

  const linked = (name: string, target: string): string => {
    symlinkSync(target, path(name))
    return path(name)
  }

  for (const uri of SPELLINGS) {
    it(`apps: reading the app of a tool without its scope as ${uri} in 2025-11-25: 403 without the document`, async () => {
      const { status, text } = await served.send(legacy(rpc('resources/read', { uri }), bearer('writer')))
      expect(status).to.equal(403)
      expect(text).not.to.contain(SECRET)
    })

    it(`apps: reading the app of a tool without its scope as ${uri} in 2026-07-28: 403 without the document`, async () => {
      const headers = { ...bearer('writer'), 'mcp-name': uri }
      const { status, text } = await served.send(modern('resources/read', { uri }, headers))
      expect(status).to.equal(403)
      expect(text).not.to.contain(SECRET)
    })
  }

  it('apps: subscribing to the app of a tool without its scope: 403', async () => {
    const message = rpc('resources/subscribe', { uri: 'UI://payroll/chart.html' })
    expect((await served.send(legacy(message, bearer('writer')))).status).to.equal(403)
  })

  it('apps: a document that ends a script and opens another: JSON with the unchanged document', async () => {
    const message = rpc('resources/read', { uri: 'ui://payroll/chart.html' })
    const answer = await served.send(legacy(message, bearer('admin')))
    expect(answer.headers.get('content-type')).not.to.contain('html')
    expect(answer.message.result.contents[0].text).to.equal(HTML)
  })

  it('apps: a file of 1 TiB: a configuration error that names the limit', () => {
    writeFileSync(path('huge'), '<p>')
    truncateSync(path('huge'), 2 ** 40)
    expect(problemOf(path('huge'))).to.match(/^file of app 'chart' must not have more than 1048576 bytes/)
  })

  it('apps: a link to a file of 1 TiB: a configuration error that names the limit', () => {
    writeFileSync(path('large'), '<p>')
    truncateSync(path('large'), 2 ** 40)
    expect(problemOf(linked('to-large', 'large'))).to.contain('must not have more than 1048576 bytes')
  })

  it('apps: a named pipe without a writer: a configuration error at once', () => {
    execFileSync('mkfifo', [path('pipe')])
    expect(problemOf(path('pipe'))).to.contain('must be a regular file')
    expect(problemOf(linked('to-pipe', 'pipe'))).to.contain('must be a regular file')
  })

  it('apps: a directory, and a link to a directory outside: a configuration error', () => {
    mkdirSync(path('directory'))
    expect(problemOf(path('directory'))).to.contain('must be a regular file')
    expect(problemOf(linked('outside', '/'))).to.contain('must be a regular file')
  })

  it('apps: a device that never ends: a configuration error', () =>
    expect(problemOf(linked('device', '/dev/zero'))).to.contain('must be a regular file'))

  it('apps: a link to itself: a configuration error', () =>
    expect(problemOf(linked('loop', 'loop'))).to.contain('can be read (ELOOP)'))

  it('apps: a link to a file with a secret outside of the folder, which is not HTML: a configuration error without the secret', () => {
    writeFileSync(path('secret'), SECRET)
    const problem = problemOf(linked('to-secret', 'secret'))
    expect(problem).to.contain('must be an HTML document')
    expect(problem).not.to.contain('salary')
  })

  it('apps: a file that is not UTF-8: a configuration error', () => {
    writeFileSync(path('binary'), Buffer.from([0x3c, 0xff, 0xfe]))
    expect(problemOf(path('binary'))).to.contain('must be a file in UTF-8')
  })
})
