import { execFile } from 'node:child_process'
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { writeSecretFile } from '../../cli/keys/command.ts'
import type { AuthorizationKeys } from '../../src/authorization/index.ts'
import { resolveKeys } from '../../src/authorization/keys.ts'
import { itRejects, runCommand } from '../support/cli/run-command.ts'
import { skipIf } from '../support/skip.ts'

const execute = promisify(execFile)

const keys = (...argv: string[]) => runCommand(['keys', ...argv])

async function keysIn(file: string): Promise<AuthorizationKeys> {
  return JSON.parse(await readFile(file, 'utf8')) as AuthorizationKeys
}

/** Returns what identifies the keys of each list. */
function namesOf({ signing, encryption }: AuthorizationKeys) {
  return { signing: signing.map(({ kid }) => String(kid)), encryption: [...encryption] }
}

describe('mcp-gatekit keys', () => {
  let folder: string

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'keys-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  itRejects(
    ['keys'],
    [
      [['keys.json'], 'unexpected argument. Name the file with --out or --rotate'],
      [['--rotat', 'x'], 'unknown option --rotat. Did you mean --rotate?'],
      [['--out'], '--out requires a value'],
      [['--out', ''], '--out must be the path of a file'],
      [['--rotate', ''], '--rotate must be the path of a file'],
      [['--force'], '--force requires --out'],
      [['--force=yes', '--out', 'x'], '--force takes no value'],
      [['--rotate', 'x', '--promote', 'x'], '--rotate, --stage, and --promote cannot be combined'],
      [['--stage', 'x', '--rotate', 'x'], '--rotate, --stage, and --promote cannot be combined'],
      [['--keep-signing', '3'], '--keep-signing and --keep-encryption require --rotate'],
      [['--stage', 'x', '--keep-encryption', '3'], '--keep-signing and --keep-encryption require --rotate'],
      [['--rotate', 'x', '--keep-signing', '0'], '--keep-signing must be a number from 1 to 100'],
      [['--rotate', 'x', '--keep-encryption', '101'], '--keep-encryption must be a number from 1 to 100'],
      [['--rotate', 'x', '--keep-encryption', '1e1'], '--keep-encryption must be a number from 1 to 100'],
    ],
  )

  it('prints one line of JSON with keys that authorizationFacade accepts, and different ones each time', async () => {
    const [one, two] = [await keys(), await keys()]
    expect(one).to.deep.include({ exitCode: 0, stderr: '' })
    expect(one.stdout).to.match(/^\{[^\n]*\}\n$/)
    const [first, second] = [one, two].map(({ stdout }) => JSON.parse(stdout) as AuthorizationKeys)
    if (first === undefined || second === undefined) throw new Error('no keys')
    expect(resolveKeys(first).signing.map(({ alg }) => alg)).to.deep.equal(['ES256'])
    expect(first.encryption[0]).to.match(/^[\w-]{43}$/)
    expect(first.signing[0]?.d).not.to.equal(second.signing[0]?.d)
    expect(first.encryption[0]).not.to.equal(second.encryption[0])
  })

  it('--out writes a file that only its owner can read, and prints no secret', async () => {
    const file = join(folder, 'written.json')
    expect(await keys('--out', file)).to.deep.equal({ exitCode: 0, stdout: `wrote ${file}\n`, stderr: '' })
    expect((await stat(file)).mode & 0o777).to.equal(0o600)
    expect(resolveKeys(await keysIn(file)).encryption).to.have.length(1)
  })

  it('--out changes no file that exists, unless --force is given', async () => {
    const file = join(folder, 'taken.json')
    await writeFile(file, 'mine')
    await chmod(file, 0o644)
    expect(await keys('--out', file)).to.deep.equal({
      exitCode: 1,
      stdout: '',
      stderr: `mcp-gatekit: ${file} exists already. Choose another file, or replace this one with --force\n`,
    })
    expect(await readFile(file, 'utf8')).to.equal('mine')
    expect(await keys('--out', file, '--force')).to.include({ exitCode: 0 })
    expect((await stat(file)).mode & 0o777).to.equal(0o600)
    expect((await keysIn(file)).signing).to.have.length(1)
  })

  it('a key file whose content cannot be written completely leaves no file', async () => {
    const place = await mkdtemp(join(folder, 'full-'))
    const text = (async function* () {
      yield 'half'
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    })()
    const failure = await writeSecretFile(join(place, 'keys.json'), text as never, false).catch(String)
    expect(failure).to.match(/cannot write .* \(ENOSPC\)$/)
    expect(await readdir(place)).to.deep.equal([])
  })

  it('--out --force keeps the owner of the file', async function () {
    skipIf(this, process.getuid?.() === 0 ? undefined : 'only root may give a file to another user')
    const file = join(await mkdtemp(join(folder, 'owned-')), 'keys.json')
    await writeFile(file, 'old')
    await chown(file, 1_234, 5_678)
    expect(await keys('--out', file, '--force')).to.include({ exitCode: 0 })
    const { uid, gid, mode } = await stat(file)
    expect([uid, gid, mode & 0o777]).to.deep.equal([1_234, 5_678, 0o600])
  })

  it('--out --force replaces the target of a symbolic link, and leaves no other file', async () => {
    const place = join(folder, 'linked')
    await mkdir(place)
    await writeFile(join(place, 'real.json'), 'old')
    await symlink('real.json', join(place, 'keys.json'))
    expect(await keys('--out', join(place, 'keys.json'), '--force')).to.include({ exitCode: 0 })
    expect(await readlink(join(place, 'keys.json'))).to.equal('real.json')
    expect((await keysIn(join(place, 'real.json'))).signing).to.have.length(1)
    expect(await readdir(place)).to.have.members(['keys.json', 'real.json'])
  })

  it('--out with a dangling link, a folder, or a missing folder writes nothing and exits with 1', async () => {
    const place = join(folder, 'places')
    await mkdir(place)
    await symlink('missing.json', join(place, 'dangling'))
    for (const [argv, complaint] of [
      [['--out', join(place, 'dangling')], 'exists already'],
      [['--out', place], 'exists already'],
      [['--out', place, '--force'], 'is not a file'],
      [['--out', join(place, 'a', 'b')], '(ENOENT)'],
      [['--out', join(place, 'a', 'b'), '--force'], '(ENOENT)'],
    ] as const) {
      const { exitCode, stdout, stderr } = await keys(...argv)
      expect({ exitCode, stdout }).to.deep.equal({ exitCode: 1, stdout: '' })
      expect(stderr)
        .to.match(/^mcp-gatekit: [^\n]+\n$/)
        .and.contain(complaint)
    }
    expect(await readdir(place)).to.deep.equal(['dangling'])
  })

  it('--rotate puts new keys in front, keeps 2 signing keys and 5 secrets, and says what it removed', async () => {
    const file = join(folder, 'rotated.json')
    await keys('--out', file)
    const seen = [namesOf(await keysIn(file))]
    for (let round = 1; round <= 5; round++) {
      const { exitCode, stderr } = await keys('--rotate', file, '--out', file, '--force')
      expect(exitCode).to.equal(0)
      seen.unshift(namesOf(await keysIn(file)))
      const parts = [
        ...(round > 1 ? ['1 old signing key'] : []),
        ...(round > 4 ? ['1 old encryption secret'] : []),
      ]
      expect(stderr).to.equal(parts.length === 0 ? '' : `mcp-gatekit: removed ${parts.join(' and ')}\n`)
    }
    const [last, ...before] = seen
    expect(last?.signing.slice(1)).to.deep.equal([before[0]?.signing[0]])
    expect(last?.encryption.slice(1)).to.deep.equal(before.slice(0, 4).map(({ encryption }) => encryption[0]))
  })

  it('--rotate without --out prints the keys and does not change the file', async () => {
    const file = join(folder, 'read.json')
    await keys('--out', file)
    const text = await readFile(file, 'utf8')
    const { exitCode, stdout } = await keys('--rotate', file, '--keep-signing', '1', '--keep-encryption', '2')
    expect(exitCode).to.equal(0)
    const [old, now] = [namesOf(JSON.parse(text)), namesOf(JSON.parse(stdout))]
    expect(now.signing).to.have.length(1).and.not.include(old.signing[0])
    expect(now.encryption).to.have.length(2)
    expect(now.encryption[1]).to.equal(old.encryption[0])
    expect(await readFile(file, 'utf8')).to.equal(text)
  })

  it('--stage puts new keys at the end, and --promote moves them to the front', async () => {
    const file = join(folder, 'staged.json')
    await keys('--out', file)
    const old = namesOf(await keysIn(file))
    await keys('--stage', file, '--out', file, '--force')
    const staged = namesOf(await keysIn(file))
    expect([staged.signing[0], staged.encryption[0]]).to.deep.equal([old.signing[0], old.encryption[0]])
    expect([staged.signing.length, staged.encryption.length]).to.deep.equal([2, 2])
    await keys('--promote', file, '--out', file, '--force')
    const promoted = namesOf(await keysIn(file))
    expect(promoted).to.deep.equal({
      signing: staged.signing.toReversed(),
      encryption: staged.encryption.toReversed(),
    })
  })

  it('a file without usable keys is named with the problem, and nothing of it is printed', async () => {
    const secret = 'hunter2-hunter2-hunter2-hunter2-hunter2'
    const { signing } = JSON.parse((await keys()).stdout) as AuthorizationKeys
    const [{ kid: _kid, ...nameless }] = signing as [AuthorizationKeys['signing'][number]]
    for (const [name, content, complaint] of [
      ['text.json', secret, 'does not contain valid JSON'],
      ['list.json', [], 'keys must be an object'],
      ['empty.json', {}, 'keys.signing must be a non-empty array'],
      ['short.json', { signing, encryption: ['hunter2'] }, 'at least 32 characters'],
      ['public.json', { signing: [{ ...nameless, d: undefined }], encryption: [secret] }, 'private JWKs'],
      ['nameless.json', { signing: [nameless], encryption: [secret] }, 'has no kid'],
      ['same.json', { signing: [...signing, ...signing], encryption: [secret] }, 'a different kid'],
    ] as const) {
      const file = join(folder, name)
      await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
      const { exitCode, stdout, stderr } = await keys('--rotate', file)
      expect({ exitCode, stdout }, name).to.deep.equal({ exitCode: 1, stdout: '' })
      expect(stderr, name)
        .to.match(/^mcp-gatekit: [^\n]+\n$/)
        .and.contain(file)
        .and.contain(complaint)
      expect(stderr, name).not.to.match(/hunter2|explain/)
      expect(stderr, name).not.to.contain(String(nameless.x))
    }
    const missing = join(folder, 'missing.json')
    expect(await keys('--promote', missing)).to.include({
      exitCode: 1,
      stderr: `mcp-gatekit: cannot read ${missing} (ENOENT)\n`,
    })
  })

  it('the program reads keys from a pipe and writes them to a pipe', async () => {
    const main = fileURLToPath(new URL('../../cli/main.js', import.meta.url))
    const file = join(folder, 'piped.json')
    await keys('--out', file)
    const command = 'cat "$2" | "$0" "$1" keys --rotate /dev/stdin'
    const piped = await execute('sh', ['-c', command, process.execPath, main, file])
    expect(namesOf(JSON.parse(piped.stdout)).encryption[1]).to.equal(
      namesOf(await keysIn(file)).encryption[0],
    )
  })
})
