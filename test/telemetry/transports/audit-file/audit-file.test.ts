import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  promises,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import {
  type AuditFileOptions,
  auditFile,
  KitTelemetry,
  KitTelemetryError,
  verifyAudit,
} from '../../../../src/telemetry/index.ts'
import { anEvent } from '../../../support/chat-services.ts'
import { skipIf } from '../../../support/skip.ts'
import { AUDIT_SECRET, auditBuilder } from '../../../support/telemetry/audit.ts'
import { RecordingLogger } from '../../../support/telemetry/recording.ts'

const META = { service: 's', environment: 'e' }
const OPTION = 'the first argument of auditFile() must be the path of'

describe('auditFile', function () {
  this.timeout(60_000)

  let folder: string
  let path: string
  const { setTimeout } = globalThis
  const { open } = promises
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'audit-file-'))
    path = join(folder, 'audit.log')
    // The pauses between attempts are as short as possible, but not the deadline of a shutdown.
    const short = (callback: () => void, ms: number) => setTimeout(callback, ms < 10_000 ? 0 : ms)
    globalThis.setTimeout = short as typeof setTimeout
  })
  afterEach(() => {
    globalThis.setTimeout = setTimeout
    promises.open = open
    rmSync(folder, { recursive: true })
  })

  const managerFor = (file: string, options?: AuditFileOptions, logger = new RecordingLogger()) =>
    auditBuilder(auditFile(file, options), logger).build()
  const verify = (...files: readonly string[]) =>
    verifyAudit([Buffer.concat(files.map((file) => readFileSync(file)))], AUDIT_SECRET)
  const linesOf = (file: string): string[] => {
    const text = readFileSync(file, 'utf8')
    expect(text.endsWith('\n') || text === '').to.equal(true)
    return text.split('\n').slice(0, -1)
  }
  const firstError = async (work: unknown): Promise<Error> => {
    const settled = await Promise.allSettled([work])
    return settled[0].status === 'rejected' ? settled[0].reason : expect.fail('no error')
  }

  const makePipe = (): string => {
    execFileSync('mkfifo', [path])
    return path
  }

  for (const fsync of [false, true]) {
    it(`the log of several runs consists of whole lines and verifies, with fsync: ${fsync}`, async () => {
      for (let run = 0; run < 3; run++) {
        const manager = managerFor(path, { fsync })
        for (let index = 0; index < 20; index++)
          manager.emit('a.b', { attributes: { index, text: 'ü\u2028\n' } })
        await manager.shutdown()
        expect(manager.stats().audit).to.include({ accepted: 22, delivered: 22, pending: 0 })
      }
      expect(linesOf(path)).to.have.length(66)
      expect(await verify(path)).to.deep.equal({ valid: true, events: 60 })
    })
  }

  it('a new file can be read by its owner only, and the permissions of an existing one stay', async () => {
    await managerFor(path).shutdown()
    expect(statSync(path).mode & 0o777).to.equal(0o600)
    chmodSync(path, 0o640)
    await managerFor(path).shutdown()
    expect(statSync(path).mode & 0o777).to.equal(0o640)
  })

  it('with fsync, each line is on the disk before its event counts as delivered', async () => {
    const calls: string[] = []
    promises.open = async (...args) => {
      const file = await open(...args)
      const { sync, write } = file
      return Object.assign(file, {
        sync: () => sync.call(file).then(() => void calls.push(args[0] === path ? 'sync' : 'sync folder')),
        write: (...given: unknown[]) => calls.push('write') && Reflect.apply(write, file, given),
      })
    }
    const transport = auditFile(path, { fsync: true })
    await transport.init?.(META)
    await transport.handle(anEvent())
    await transport.handle(anEvent())
    expect(calls).to.deep.equal(['sync folder', 'write', 'sync', 'write', 'sync'])
    await transport.shutdown?.()
  })

  describe('the end of an existing file', () => {
    const LINE = `${JSON.stringify(anEvent({ name: 'a.first' }))}\n`
    const LONG = `${JSON.stringify(anEvent({ attributes: { text: 'x'.repeat(200_000) } }))}\n`
    for (const [what, content, kept] of [
      ['an empty file', '', ''],
      ['whole lines', LINE + LINE, LINE + LINE],
      ['half a line after whole lines', LINE + LINE.slice(0, 30), LINE],
      ['a line of one byte', `${LINE}{`, LINE],
      ['half a line alone', LINE.slice(0, -3), ''],
      ['a line without its line feed', LINE + LINE.slice(0, -1), LINE + LINE],
      ['half a line of 200 kB', LINE + LONG.slice(0, -2), LINE],
      ['a line of 200 kB without its line feed', LINE + LONG.slice(0, -1), LINE + LONG],
      ['half a line that ends within a character', Buffer.from(`${LINE}{"a":"ü`).subarray(0, -1), LINE],
      ['half a line that ends with zeros', `${LINE}{"name":"a\0\0\0\0`, LINE],
      ['zeros', LINE + '\0'.repeat(100_000), LINE],
    ] as const) {
      it(`a log that ends with ${what} has whole lines after the start, and none of them is lost`, async () => {
        writeFileSync(path, content)
        const transport = auditFile(path)
        await transport.init?.(META)
        expect(readFileSync(path, 'utf8')).to.equal(kept)
        await transport.handle(anEvent({ name: 'a.next' }))
        await transport.shutdown?.()
        expect(readFileSync(path, 'utf8').slice(kept.length)).to.equal(
          `${JSON.stringify(anEvent({ name: 'a.next' }))}\n`,
        )
      })
    }

    it('the log of a killed process verifies up to its last whole line after a restart', async () => {
      const manager = managerFor(path)
      for (let index = 0; index < 5; index++) manager.emit('a.b')
      await manager.shutdown()
      // The closing line is torn.
      truncateSync(path, statSync(path).size - 10)
      const next = managerFor(path)
      next.emit('a.b')
      await next.shutdown()
      expect(linesOf(path)).to.have.length(9)
      const { valid, firstBreak } = await verify(path)
      expect([valid, firstBreak?.seq]).to.deep.equal([false, 6])
      expect(firstBreak?.reason).to.contain('closing line')
    })

    it('a last line of 8 MiB that is incomplete is removed', async () => {
      writeFileSync(path, `{"a":1}\n{${'x'.repeat(8_388_607)}`)
      const manager = managerFor(path)
      manager.emit('a.b')
      await manager.shutdown()
      const [first, ...lines] = linesOf(path)
      expect(first).to.equal('{"a":1}')
      expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal({ valid: true, events: 1 })
    })

    for (const [what, content] of [
      ['text', 'root:x:0:0\ndaemon:x:1:1'],
      ['a bracket', '[\n]'],
      ['a last line of 8 MiB and 64 KiB', `{}\n{${'x'.repeat(8_388_608 + 65_536)}`],
      ['a last line of 9 MB', `{${'x'.repeat(9_000_000)}`],
    ] as const) {
      it(`a file that ends with ${what} is not changed, and the transport is disabled`, async () => {
        writeFileSync(path, content)
        const logger = new RecordingLogger()
        const manager = managerFor(path, {}, logger)
        await manager.shutdown()
        expect(readFileSync(path, 'utf8')).to.equal(content)
        expect(logger.errors[0]?.message).to.contain(OPTION)
        expect(manager.stats().audit).to.include({ delivered: 0, failed: 2 })
      })
    }
  })

  describe('a path that cannot be used', () => {
    const cases: readonly (readonly [what: string, path: () => string, words: string])[] = [
      ['a folder', () => folder, 'EISDIR'],
      ['a file in a folder that does not exist', () => join(folder, 'no', 'audit.log'), 'ENOENT'],
      ['a file in a file', () => join(fileURLToPath(import.meta.url), 'audit.log'), 'ENOTDIR'],
      ['a device', () => '/dev/full', 'it is not a regular file'],
      ['a pipe', makePipe, 'it is not a regular file'],
      ['a path with a zero', () => `${path}\0`, 'ERR_INVALID_ARG_VALUE'],
    ]
    for (const [what, pathOf, words] of cases) {
      it(`${what} as the path disables the transport at the start, with an error that names the argument`, async () => {
        const logger = new RecordingLogger()
        const manager = managerFor(pathOf(), {}, logger)
        manager.emit('a.b')
        await manager.shutdown()
        expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_INIT_FAILED'])
        expect(logger.errors[0]?.message).to.contain(OPTION).and.contain(words)
        expect(manager.stats().audit).to.include({ accepted: 3, delivered: 0, failed: 3 })
      })
    }

    it('a file that cannot be opened at the start because of a full disk is opened later', async () => {
      let attempts = 0
      promises.open = async (...args) => {
        if (++attempts <= 3) throw Object.assign(new Error(), { code: 'ENOSPC' })
        return open(...args)
      }
      const manager = managerFor(path)
      manager.emit('a.b')
      await manager.shutdown()
      expect(await verify(path)).to.deep.equal({ valid: true, events: 1 })
    })
  })

  describe('a file that is moved', () => {
    it('lines after a rename are in a new file, and both files together verify', async () => {
      const manager = managerFor(path)
      manager.emit('a.b')
      await manager.flush()
      renameSync(path, `${path}.1`)
      manager.emit('a.c')
      await manager.shutdown()
      expect([linesOf(`${path}.1`).length, linesOf(path).length]).to.deep.equal([2, 2])
      expect(await verify(`${path}.1`, path)).to.deep.equal({ valid: true, events: 2 })
    })

    it('lines after the file was replaced are in the new file, after its last whole line', async () => {
      const manager = managerFor(path)
      await manager.flush()
      renameSync(path, `${path}.1`)
      writeFileSync(path, '{"name')
      await manager.shutdown()
      expect(linesOf(path)).to.have.length(1)
      expect(await verify(`${path}.1`, path)).to.deep.equal({ valid: true, events: 0 })
    })

    it('lines after the file was removed are in a new file, and the log says that lines are missing', async () => {
      const manager = managerFor(path)
      await manager.flush()
      rmSync(path)
      manager.emit('a.b')
      await manager.shutdown()
      expect(linesOf(path)).to.have.length(2)
      expect((await verify(path)).firstBreak?.seq).to.equal(0)
    })

    it('events wait while the folder is missing, and are written when it is back', async () => {
      const logger = new RecordingLogger()
      const manager = managerFor(path, {}, logger)
      await manager.flush()
      renameSync(folder, `${folder}.moved`)
      manager.emit('a.b')
      while (logger.errors.length === 0) await new Promise(setImmediate)
      renameSync(`${folder}.moved`, folder)
      await manager.shutdown()
      expect(await verify(path)).to.deep.equal({ valid: true, events: 1 })
    })

    it('lines after the file was cut to nothing are whole', async () => {
      const manager = managerFor(path)
      manager.emit('a.b')
      await manager.flush()
      truncateSync(path, 0)
      manager.emit('a.c')
      await manager.shutdown()
      expect(linesOf(path)).to.have.length(2)
    })
  })

  it('an event of an ordinary transport fails alone if its line cannot be written', async () => {
    promises.open = async (...args) => {
      const file = await open(...args)
      const { write } = file
      const failing = async (bytes: Uint8Array) => {
        if (!String(Buffer.from(bytes)).includes('a.fails')) return Reflect.apply(write, file, [bytes])
        await Reflect.apply(write, file, [bytes.subarray(0, 20)])
        throw Object.assign(new Error(path), { code: 'EIO' })
      }
      return Object.assign(file, { write: failing })
    }
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger(false)
      .addTransport(auditFile(path))
      .build()
    for (const name of ['a.first', 'a.fails']) manager.emit(name)
    await manager.flush()
    expect(linesOf(path)).to.have.length(1)
    manager.emit('a.last')
    await manager.flush()
    const [stats] = manager.stats().transports
    expect(stats).to.include({ type: 'audit-file', accepted: 3, delivered: 2, failed: 1 })
    expect(stats?.lastError?.message).to.contain('EIO').and.not.contain(folder)
    await manager.shutdown()
    expect(linesOf(path).map((line) => JSON.parse(line).name)).to.deep.equal(['a.first', 'a.last'])
  })

  it('the bytes of a failed line stay if another process has written behind them', async () => {
    promises.open = async (...args) => {
      const file = await open(...args)
      const { write } = file
      const torn = async (bytes: Uint8Array) => {
        file.write = write
        const written = await Reflect.apply(write, file, [bytes.subarray(0, 20)])
        appendFileSync(path, '\n{"other":1}\n')
        return written
      }
      return Object.assign(file, { write: torn })
    }
    const transport = auditFile(path)
    const error = await firstError(transport.handle(anEvent()))
    expect(error.message).to.equal('only a part of the line could be written')
    await transport.handle(anEvent())
    await transport.shutdown?.()
    expect(linesOf(path).slice(1)).to.deep.equal(['{"other":1}', JSON.stringify(anEvent())])
  })

  it('a line stays if an equal one after it cannot be written', async () => {
    let writes = 0
    promises.open = async (...args) => {
      const file = await open(...args)
      const { write } = file
      const failing = async (bytes: Uint8Array) => {
        if (++writes === 2) throw Object.assign(new Error('fault'), { code: 'EIO' })
        return Reflect.apply(write, file, [bytes])
      }
      return Object.assign(file, { write: failing })
    }
    const transport = auditFile(path)
    await transport.handle(anEvent())
    await firstError(transport.handle(anEvent()))
    await transport.shutdown?.()
    expect(linesOf(path)).to.deep.equal([JSON.stringify(anEvent())])
  })

  it('shutdown closes the file, and later events fail', async function () {
    const isOpen = () =>
      readdirSync('/proc/self/fd').some((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === path
        } catch {
          return false
        }
      })
    skipIf(this, existsSync('/proc/self/fd') ? undefined : 'only Linux lists open files in /proc')
    const transport = auditFile(path)
    await transport.init?.(META)
    const written = transport.handle(anEvent())
    expect(isOpen()).to.equal(true)
    await transport.shutdown?.()
    await written
    expect(isOpen()).to.equal(false)
    const error = await firstError(transport.handle(anEvent()))
    expect(KitTelemetryError.is(error) && error.message).to.equal('the file is closed')
    expect(linesOf(path)).to.have.length(1)
  })
})
