import { quotedName } from '../../base/options/describe-value.ts'

/** The maximum number of attributes that `set` adds to the event of one request. */
export const MAX_ATTRIBUTES = 128

/** The maximum length of these attributes as JSON, including their names, in UTF-16 units. */
export const MAX_LENGTH = 65_536

/** The prefixes of the names that only this package sets. */
const RESERVED_PREFIXES = ['kit.', 'mcp.', 'jsonrpc.', 'rpc.']

/** Further names that only this package sets. */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  'duration_ms',
  'error.type',
  'gen_ai.operation.name',
  'gen_ai.prompt.name',
  'gen_ai.tool.call.arguments',
  'gen_ai.tool.call.result',
  'gen_ai.tool.name',
  'http.response.status_code',
  'reason',
])

/** Receives the reason why attributes were ignored. `kind` is the kind of reason. */
export type ReportIgnored = (kind: string, message: string) => void

/** A method of a manager that reports such a reason to the logger, at most once a second for each kind. @internal */
export const reportIgnored: unique symbol = Symbol.for('mcp-gatekit.reportIgnored')

/** The attributes that the code of one request adds to the event that ends it. They are JSON, not redacted. */
export class RequestAttributes {
  #values: Record<string, unknown> | undefined
  #lengths: Map<string, number> | undefined
  #length = 0
  #isComplete = false

  /** `true` after the event was emitted. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** The attributes so far. Undefined if there are none. */
  get values(): Readonly<Record<string, unknown>> | undefined {
    return this.#values
  }

  /** Adds attributes. A later value replaces an earlier one. @param attributes JSON values that nothing changes */
  add(attributes: Readonly<Record<string, unknown>>, report: ReportIgnored): void {
    for (const [name, value] of Object.entries(attributes)) {
      if (isReserved(name)) {
        report(
          'set-reserved',
          `set() ignored the attribute ${quotedName(name)}, because this package sets it. Choose another name`,
        )
      } else if (!this.#hasSet(name, value)) {
        report(
          'set-limit',
          `set() ignored the attribute ${quotedName(name)}, because a request may have ${MAX_ATTRIBUTES} attributes, which may have ${MAX_LENGTH} characters as JSON. Set fewer or shorter attributes, or emit an event`,
        )
      }
    }
  }

  /** Ignores later attributes, and releases those so far. */
  complete(): void {
    this.#isComplete = true
    this.#values = undefined
    this.#lengths = undefined
  }

  /** @returns `false` if a limit does not allow the attribute. */
  #hasSet(name: string, value: unknown): boolean {
    this.#lengths ??= new Map()
    const before = this.#lengths.get(name)
    const length = name.length + JSON.stringify(value).length
    const total = this.#length - (before ?? 0) + length
    if (total > MAX_LENGTH || (before === undefined && this.#lengths.size >= MAX_ATTRIBUTES)) return false
    this.#length = total
    this.#lengths.set(name, length)
    // Without a prototype, so that `__proto__` is a name as any other.
    this.#values ??= Object.create(null) as Record<string, unknown>
    this.#values[name] = value
    return true
  }
}

function isReserved(name: string): boolean {
  return RESERVED_NAMES.has(name) || RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))
}
