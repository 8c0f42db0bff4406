import type * as Crypto from 'node:crypto'
import { cutText } from '../../cut-text.ts'
import { telemetryOptions, withDefaults } from '../options.ts'

const { checkSecret, checkTexts, checkWholeNumber, copyOptions } = telemetryOptions

/**
 * What is taken out of `attributes`, `actor.tags` and `scope.tags`, at every depth, before any transport sees it.
 *
 * A key matches a listed key when they are equal ignoring case, or when the listed key is a whole dot-separated run
 * of it: `password` matches `ctx.password.hint`, not `user_password`. For nested values the run is sought in the path
 * joined by dots, so `user.email` matches `{ user: { email } }`; indexes of arrays are no part of the path.
 */
export interface TelemetryRedactionPolicy {
  /** Keys to remove. Default none. Wins over `hashKeys`. */
  readonly denylistKeys?: readonly string[] | undefined
  /**
   * Keys whose value, unless `null`, becomes the lower-case hex SHA-256 of its string form: `String(value)`, or
   * `JSON.stringify` of an object or array. Default none.
   */
  readonly hashKeys?: readonly string[] | undefined
  /** With it, hashes are HMAC-SHA-256 under this secret, so that guessed values cannot be tried out. Default none. */
  readonly hashSecret?: string | undefined
  /**
   * Longest string that is sent, in UTF-16 units; a longer one is cut to that length, `…` being its last character.
   * Holds for `error.message` and `error.stack` as well. 0 empties every string. Default 5000.
   */
  readonly maxStringLength?: number | undefined
}

/** A redaction policy with every default filled in. */
export interface ResolvedRedactionPolicy {
  /** Keys to remove. */
  readonly denylistKeys: readonly string[]
  /** Keys whose value is hashed. */
  readonly hashKeys: readonly string[]
  /** The key of the hashes. */
  readonly hashSecret: string | undefined
  /** Longest string that is sent, in UTF-16 units. */
  readonly maxStringLength: number
}

const DEFAULTS: ResolvedRedactionPolicy = Object.freeze({
  denylistKeys: Object.freeze([]),
  hashKeys: Object.freeze([]),
  hashSecret: undefined,
  maxStringLength: 5000,
})

/** How many keys (or paths) keep their action; applications, and those who attack them, can invent any number. */
const MAX_NODES = 4096

/** Longer keys are judged each time: kept, a few thousand of a megabyte each would fill the memory. In UTF-16 units. */
const MAX_KEPT_KEY = 256

/** Copies and checks a policy. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` */
export function copyRedactionPolicy(policy: TelemetryRedactionPolicy): TelemetryRedactionPolicy {
  return copyOptions<TelemetryRedactionPolicy>('withRedaction', policy, {
    denylistKeys: checkTexts,
    hashKeys: checkTexts,
    hashSecret: checkSecret,
    maxStringLength: (option, value) => checkWholeNumber(option, value, 0, Number.MAX_SAFE_INTEGER),
  })
}

/** Fills in the defaults. The secret does not show when the result is printed or serialised. */
export function resolveRedactionPolicy(policy: TelemetryRedactionPolicy): ResolvedRedactionPolicy {
  const { hashSecret, ...shown } = withDefaults<ResolvedRedactionPolicy>(DEFAULTS, policy)
  return Object.freeze(
    Object.defineProperty(shown, 'hashSecret', { value: hashSecret }),
  ) as ResolvedRedactionPolicy
}

/** The action on one key or, if a listed key has a dot, on one path of keys. */
export interface KeyNode {
  readonly action: 'keep' | 'deny' | 'hash'
  /**
   * The end of the path, folded, with a dot before each key and one behind the last: `.` for the root, `.user.email.`.
   * As long as a listed key can be, because a match that ended further in front would have been found at a parent.
   */
  readonly path: string
  readonly children: Map<string, KeyNode>
}

/** A redaction policy made ready for the walk of copy.ts; verdicts are kept, so that a key is judged once. */
export class KeyRules {
  readonly root: KeyNode = { action: 'keep', path: '.', children: new Map() }
  readonly #deny: readonly string[]
  readonly #hash: readonly string[]
  readonly #byPath: boolean
  readonly #hasKeys: boolean
  /** The length of the longest listed key, with its two dots. */
  readonly #longest: number
  readonly #maxLength: number
  readonly #digest: (text: string) => string
  #resolved = 0

  constructor(policy: ResolvedRedactionPolicy) {
    this.#deny = policy.denylistKeys.map((key) => `.${fold(key)}.`)
    this.#hash = policy.hashKeys.map((key) => `.${fold(key)}.`)
    this.#hasKeys = this.#deny.length + this.#hash.length > 0
    this.#byPath = [...policy.denylistKeys, ...policy.hashKeys].some((key) => key.includes('.'))
    this.#longest = [...this.#deny, ...this.#hash].reduce((most, { length }) => Math.max(most, length), 0)
    this.#maxLength = policy.maxStringLength
    this.#digest = policy.hashSecret === undefined ? sha256 : hmacSha256(policy.hashSecret)
  }

  /** The action on `key` below `parent`. */
  child(parent: KeyNode, key: string): KeyNode {
    return this.#hasKeys ? (parent.children.get(key) ?? this.#resolve(parent, key)) : this.root
  }

  /** `text`, or its beginning and `…` when it is too long; never half a surrogate pair. */
  cut(text: string): string {
    return cutText(text, this.#maxLength, '…')
  }

  /** Lower-case hex SHA-256 of the UTF-8 form of `text`, keyed when there is a `hashSecret`. */
  hash(text: string): string {
    return this.#digest(text)
  }

  #resolve(parent: KeyNode, key: string): KeyNode {
    const path = `${parent.path}${fold(key)}.`
    const matches = (listed: string) => path.includes(listed)
    const node: KeyNode = {
      action: this.#deny.some(matches) ? 'deny' : this.#hash.some(matches) ? 'hash' : 'keep',
      path: this.#byPath ? path.slice(-this.#longest) : '.',
      children: this.#byPath ? new Map() : this.root.children,
    }
    if (key.length > MAX_KEPT_KEY) return node
    if (++this.#resolved > MAX_NODES) {
      this.root.children.clear()
      this.#resolved = 1
    }
    parent.children.set(key, node)
    return node
  }
}

/** Lower case; a Greek final sigma, which depends on what follows, counts as any other. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll('ς', 'σ')
}

/** Loaded when something is hashed first: it is a quarter of the time that `./telemetry` would take to be imported. */
let loadedCrypto: typeof Crypto | undefined

function cryptoModule(): typeof Crypto {
  loadedCrypto ??= process.getBuiltinModule('node:crypto')
  return loadedCrypto
}

function sha256(text: string): string {
  const { hash, createHash } = cryptoModule()
  // One call instead of three, and twice as fast, from Node 20.12 on.
  return hash === undefined ? createHash('sha256').update(text).digest('hex') : hash('sha256', text, 'hex')
}

function hmacSha256(secret: string): (text: string) => string {
  const { createSecretKey, createHmac } = cryptoModule()
  const key = createSecretKey(secret, 'utf8')
  return (text) => createHmac('sha256', key).update(text).digest('hex')
}

/** The rules that keep every value as it is. */
export const KEEP_EVERYTHING: KeyRules = new KeyRules({
  ...DEFAULTS,
  maxStringLength: Number.POSITIVE_INFINITY,
})
