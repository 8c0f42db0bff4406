import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import { htmlReport } from '../../cli/doctor/report.ts'
import { startTarget } from '../support/cli/doctor-target.ts'
import { EVIL_REPORT } from '../support/cli/evil-report.ts'
import { runCommand } from '../support/cli/run-command.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'

const MARKS = { ok: '✓', warn: '!', fail: '✗', skip: '–' } as const

describe('the HTML report of doctor', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'doctor-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  const examineTo = (file: string, argv: readonly string[], env = {}) =>
    runCommand(['doctor', ...argv, '--html', file], { env })

  it('is written next to the report on the terminal, with every check', async () => {
    const { url } = await startTarget()
    const file = join(folder, 'report.html')
    const { exitCode, stdout } = await examineTo(file, [url.href, '--json'])
    const page = await readFile(file, 'utf8')
    expect(exitCode).to.equal(0)
    const { checks } = JSON.parse(stdout) as DoctorReport
    for (const { id, status } of checks) {
      expect(page).to.contain(`<code>${id}</code>`)
      expect(page).to.contain(
        `<li class="${status}"><span class="mark" aria-hidden="true">${MARKS[status]}</span>`,
      )
    }
    expect(page).to.contain('No problems found')
  })

  it('contains no secret, even if the server sends it back', async () => {
    const { url, token } = await startTarget({
      alter: (answer, { headers }) => {
        const given = headers.authorization?.slice('Bearer '.length)
        if (given !== undefined && answer.headers['www-authenticate'] !== undefined)
          answer.headers['www-authenticate'] =
            `Bearer error="invalid_token", error_description="<b>${given}</b>"`
      },
      oauth: { verifyToken: () => undefined },
    })
    const file = join(folder, 'report.html')
    await examineTo(file, [`${url.href}?key=hunter2hunter2`, '--token-env', 'TOKEN'], { TOKEN: token })
    const page = await readFile(file, 'utf8')
    expect(page).to.contain('&quot;&lt;b&gt;[secret]&lt;/b&gt;&quot;')
    expectNoSecret(page, [token, ...token.split('.').slice(1), 'hunter2hunter2'])
  })

  it('a file that cannot be written is an error before the examination', async () => {
    const { url } = await startTarget({
      instead: () => {
        throw new Error('no request is expected')
      },
    })
    const outcome = await examineTo(join(folder, 'missing', 'report.html'), [url.href])
    expect(outcome).to.deep.equal({
      exitCode: 2,
      stdout: '',
      stderr: 'mcp-gatekit: the file of --html cannot be written (ENOENT). Use another path\n',
    })
  })

  it('shows each check once: the problems first, and the others in closed groups with their numbers', () => {
    const page = htmlReport(EVIL_REPORT)
    const ids = [...page.matchAll(/<h3>.*? <code>(.*?)<\/code><\/h3>/g)].map(([, id]) => id)
    expect(ids).to.have.length(EVIL_REPORT.checks.length)
    const [open = '', ...closed] = page.split('<details>')
    expect(open.match(/class="(?:fail|warn)"><span class="mark"/g)).to.have.length(
      EVIL_REPORT.checks.filter(({ status }) => status === 'fail' || status === 'warn').length,
    )
    expect(open).not.to.match(/<li class="(?:ok|skip)"/)
    expect(closed.join('')).not.to.match(/<li class="(?:fail|warn)"|<details open/)
    for (const group of closed)
      expect(group).to.match(/<\/h2> (?:\d+ passed(?:, \d+ skipped)?|\d+ skipped)<\/summary>/)
  })

  it('escapes every text and allows only its own style sheet', () => {
    const page = htmlReport(EVIL_REPORT)
    expect(page.match(/<script|<img|<link|<a |javascript:|onerror='/g)).to.equal(null)
    expect(page.match(/<\/style>/g)).to.have.length(1)
    const style = /<style>(.*?)<\/style>/s.exec(page)?.[1] ?? ''
    const hash = createHash('sha256').update(style).digest('base64')
    expect(page).to.contain(
      `content="default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'"`,
    )
    expect(style).not.to.match(/url\(|@import/)
  })
})
