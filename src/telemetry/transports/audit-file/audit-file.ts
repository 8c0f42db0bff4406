import { quotedName } from '../../../base/options/describe-value.ts'
import { builtinModule } from '../../../base/runtime.ts'
import type { TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { KitTelemetryError } from '../../errors.ts'
import { errorWithHelp, telemetryOptions } from '../../options.ts'
import { JsonLineWriter } from '../json-line.ts'
import { LineFile, NotALogError } from './line-file.ts'

const { checkBoolean, text, copyOptions, unusableOption } = telemetryOptions

/** The options of `auditFile()`. */
export interface AuditFileOptions {
  /**
   * Calls `fsync` for each event, so that an event that counts as delivered survives a power loss. The next event waits for the
   * disk. Defaults to `false`.
   */
  readonly fsync?: boolean | undefined
}

const PATH = 'the first argument of auditFile()'

/** The errors that may pass without a change of the path or its permissions. The file is then opened with the next event. */
const PASSING_ERRORS: readonly unknown[] = ['EAGAIN', 'EDQUOT', 'EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'ENOSPC']

/**
 * Creates a transport that appends each event to a file, as one line of JSON. The file always consists of whole lines: if a line
 * cannot be written, for example because the disk is full, the part of it that was written is removed. So is the last line of a
 * process that was killed. A file that was moved or removed, for example by `logrotate`, is created again, with access for its
 * owner only.
 *
 * If the file cannot be used when the manager is built, the transport is disabled.
 * @param path the path of the file. Its folder must exist.
 * @param options whether to wait for the disk.
 * @returns the transport.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an argument is invalid, or if the runtime does not have files.
 *
 * @example
 * ```ts
 * import { auditFile, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * const secret = process.env.AUDIT_SECRET ?? ''
 * KitTelemetry.create().withAudit({ transport: auditFile('audit.log', { fsync: true }), names: ['kit.mcp.*'], secret })
 * ```
 * @see docs/guides/audit.md
 */
export function auditFile(path: string, options: AuditFileOptions = {}): TelemetryTransport {
  const { fsync = false } = copyOptions<AuditFileOptions>('auditFile', options, { fsync: checkBoolean })
  text(PATH, path)
  const absolutePath = builtinModule('node:path')?.resolve(path)
  if (absolutePath === undefined || builtinModule('node:fs') === undefined)
    throw unusableOption(
      'auditFile()',
      'is available only in runtimes with node:fs',
      'Use another transport.',
    )
  return new AuditFile(absolutePath, new LineFile(absolutePath, fsync))
}

class AuditFile implements TelemetryTransport {
  readonly type = 'audit-file'
  readonly #path: string
  readonly #file: LineFile
  readonly #writer = new JsonLineWriter(true)
  /** Resolves when all events so far have settled. */
  #last: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(path: string, file: LineFile) {
    this.#path = path
    this.#file = file
  }

  async init(): Promise<void> {
    try {
      await this.#file.open()
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException
      if (PASSING_ERRORS.includes(code)) return
      const reason = cause instanceof NotALogError ? `, but ${message}` : ` (${code})`
      throw errorWithHelp(
        'TELEMETRY_TRANSPORT_INIT_FAILED',
        `${PATH} must be the path of a new file or of a log, which this process can read and write; received ${quotedName(this.#path)}${reason}. Change the path, or create its folder, or change its permissions.`,
        { anchor: 'auditfile', cause },
      )
    }
  }

  handle(envelope: TelemetryEnvelope): Promise<void> {
    if (this.#isClosed)
      return Promise.reject(new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'the file is closed'))
    const appended = this.#last.then(() => this.#file.append(this.#writer.write(envelope)))
    // The caller gets the error. The next event is appended anyway.
    this.#last = appended.catch(() => {})
    return appended
  }

  async shutdown(): Promise<void> {
    this.#isClosed = true
    await this.#last
    await this.#file.close()
  }
}
