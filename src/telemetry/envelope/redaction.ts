import type * as Crypto from 'node:crypto'
import { cutText } from '../../base/cut-text.ts'
import { builtinModule, requiredModule } from '../../base/runtime.ts'
import type { TelemetryConfig } from '../config.ts'
import { telemetryOptions, withDefaults } from '../options.ts'
import { ListedKeys, type OpenKey } from './listed-keys.ts'
import { CUT } from './pattern-rules.ts'
import type { TelemetryRedactionPattern } from './secret-patterns.ts'
import { checkPatterns, StringRedactor } from './string-redactor.ts'

const { secret, checkTexts, checkWholeNumber, copyOptions, unusableOption } = telemetryOptions

/**
 * The values that are removed, hashed, or replaced in `attributes`, `actor.tags`, and `scope.tags`, at every depth, before a
 * transport receives them.
 *
 * A key matches a listed key if they are equal ignoring case, or if the listed key is a sequence of its dot-separated
 * parts: `password` matches `ctx.password.hint`, but not `user_password`. In a listed key, `*` matches any number of characters
 * other than dots: `*password*` matches `user_password_hint`. The key of a nested value is its path joined by
 * dots, without array indexes, so `user.email` matches `{ user: { email } }`.
 */
export interface TelemetryRedactionPolicy {
  /** The keys to remove. They have priority over `hashKeys`. Defaults to none. */
  readonly denylistKeys?: readonly string[] | undefined
  /**
   * The keys whose value is replaced with the lowercase hex SHA-256 of its string form: `String(value)`, or
   * `JSON.stringify` of an object or array. `null` is not hashed. Defaults to none.
   */
  readonly hashKeys?: readonly string[] | undefined
  /** The key for HMAC-SHA-256 hashes, which prevents guessing of values. By default, hashes are plain SHA-256. */
  readonly hashSecret?: string | undefined
  /**
   * The secrets to replace inside strings, also in those of `error`, before strings are cut. They apply one
   * after the other, and not to values of `hashKeys`. `COMMON_SECRET_PATTERNS` is a list of common ones. Defaults to none.
   */
  readonly patterns?: readonly TelemetryRedactionPattern[] | undefined
  /**
   * The maximum length of a string, in UTF-16 units. Longer strings are cut to that length and end with `…`. It also applies
   * to `error.message` and `error.stack`. 0 empties every string. Defaults to 5 000.
   */
  readonly maxStringLength?: number | undefined
}

/** A redaction policy with all defaults. */
export type ResolvedRedactionPolicy = TelemetryConfig['redaction']

const DEFAULTS: ResolvedRedactionPolicy = Object.freeze({
  denylistKeys: Object.freeze([]),
  hashKeys: Object.freeze([]),
  hashSecret: undefined,
  patterns: Object.freeze([]),
  maxStringLength: 5000,
})

/** The number of characters that are searched for secrets for each character that may be sent. */
const SEARCHED = 10

/** The maximum number of keys (or paths) whose action is kept, because clients may send any number of keys. */
const MAX_NODES = 4096

/** The maximum length of a key whose action is kept, in UTF-16 units. Thousands of long keys would fill the memory. */
const MAX_KEPT_KEY = 256

/** Copies and checks a policy. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is invalid. */
export function copyRedactionPolicy(policy: TelemetryRedactionPolicy): TelemetryRedactionPolicy {
  let patterns: readonly TelemetryRedactionPattern[] | undefined
  const copy = copyOptions<TelemetryRedactionPolicy>('withRedaction', policy, {
    denylistKeys: checkTexts,
    hashKeys: (option, value) => {
      const keys = checkTexts(option, value)
      if (keys.length > 0) checkHashing(option)
      return keys
    },
    hashSecret: (option, value) => {
      secret(option, value)
      checkHashing(option)
    },
    patterns: (option, value) => {
      patterns = checkPatterns(option, value)
      if (patterns.some(({ replace }) => replace === 'hash')) checkHashing(`replace: 'hash' of ${option}`)
    },
    maxStringLength: (option, value) => checkWholeNumber(option, value, 0, Number.MAX_SAFE_INTEGER),
  })
  return patterns === undefined ? copy : Object.freeze({ ...copy, patterns })
}

/** Checks that the runtime can hash. The hashes of the Web Crypto API are asynchronous, and `emit` is not. */
function checkHashing(option: string): void {
  if (builtinModule('node:crypto') !== undefined) return
  throw unusableOption(
    option,
    'needs node:crypto, which this runtime does not have',
    'Use denylistKeys, and hash values on a server.',
  )
}

/** Fills in the defaults. The secret is not enumerable, so that it is not printed or serialized. */
export function resolveRedactionPolicy(policy: TelemetryRedactionPolicy): ResolvedRedactionPolicy {
  const { hashSecret, ...shown } = withDefaults<ResolvedRedactionPolicy>(DEFAULTS, policy)
  return Object.freeze(
    Object.defineProperty(shown, 'hashSecret', { value: hashSecret }),
  ) as ResolvedRedactionPolicy
}

/** The action for one key or, if a listed key contains a dot, for one path of keys. */
export interface KeyNode {
  readonly action: 'keep' | 'deny' | 'hash'
  /** The listed keys that may match the path with further keys. */
  readonly open: readonly OpenKey[]
  /** The nodes of the keys below it. All nodes without open keys share them. */
  readonly children: Map<string, KeyNode>
  readonly key: string
  /** The node of the first key in the latest object below it, and the node of the key that followed its own key there. */
  first: KeyNode | undefined
  next: KeyNode | undefined
}

/** A redaction policy, compiled for `toRedactedJson`. The action for each key is kept. */
export class KeyRules {
  readonly root: KeyNode = newNode('keep', [], new Map(), '')
  readonly #keys: ListedKeys
  /** `true` if any key is removed or hashed. */
  readonly hasKeys: boolean
  /** The maximum length of a string, in UTF-16 units. */
  readonly maxLength: number
  readonly #digest: (text: string) => string
  readonly #strings: StringRedactor | undefined
  #resolved = 0

  constructor(policy: ResolvedRedactionPolicy) {
    this.#keys = new ListedKeys({ deny: policy.denylistKeys, hash: policy.hashKeys })
    this.hasKeys = !this.#keys.isEmpty
    this.maxLength = policy.maxStringLength
    this.#digest = policy.hashSecret === undefined ? sha256 : hmacSha256(policy.hashSecret)
    if (policy.patterns.length > 0) this.#strings = new StringRedactor(policy.patterns, this.#digest)
  }

  /**
   * Returns the action for `key` below `parent`. Most objects have the keys of an earlier object, in the same order, so the
   * node that followed `previous` then is compared first.
   * @param previous the node of the previous key of the same object, if there is one.
   */
  child(parent: KeyNode, previous: KeyNode | undefined, key: string): KeyNode {
    const expected = previous === undefined ? parent.first : previous.next
    if (expected !== undefined && expected.key === key) return expected
    return this.hasKeys ? this.#find(parent, previous, key) : this.root
  }

  /** Replaces the secrets in a string, and cuts it if it is too long. */
  string(text: string): string {
    const strings = this.#strings
    if (strings === undefined) return this.cut(text)
    const searched = SEARCHED * this.maxLength
    return this.cut(text.length > searched ? strings.redactStart(text, searched) + CUT : strings.redact(text))
  }

  /** Replaces the secrets in the name or the code of an error, which is short. */
  name(text: string): string {
    return this.#strings?.redact(text) ?? text
  }

  /** Cuts a string that is too long, so that it ends with `…`. Never splits a surrogate pair. */
  cut(text: string): string {
    return cutText(text, this.maxLength, CUT)
  }

  /** Returns the lowercase hex SHA-256 of a string in UTF-8, or its HMAC if there is a `hashSecret`. */
  hash(text: string): string {
    return this.#digest(text)
  }

  /** Returns a new node for a key below `parent`, or for a name that stands for one. */
  resolve(parent: KeyNode, key: string): KeyNode {
    const { action, open } = this.#keys.follow(parent.open, key)
    return newNode(action, open, open.length > 0 ? new Map() : this.root.children, key)
  }

  #find(parent: KeyNode, previous: KeyNode | undefined, key: string): KeyNode {
    let node = parent.children.get(key)
    if (node === undefined) {
      node = this.resolve(parent, key)
      if (key.length > MAX_KEPT_KEY) return node
      if (++this.#resolved > MAX_NODES) {
        this.root.children.clear()
        this.root.first = undefined
        this.#resolved = 1
      }
      parent.children.set(key, node)
    }
    if (previous === undefined) parent.first = node
    else previous.next = node
    return node
  }
}

function newNode(
  action: KeyNode['action'],
  open: KeyNode['open'],
  children: KeyNode['children'],
  key: string,
): KeyNode {
  return { action, open, children, key, first: undefined, next: undefined }
}

/** `node:crypto`, which is loaded when hashes are configured, because it would take a quarter of the import time of `./telemetry`. */
let loadedCrypto: typeof Crypto | undefined

function cryptoModule(): typeof Crypto {
  loadedCrypto ??= requiredModule('node:crypto')
  return loadedCrypto
}

function sha256(text: string): string {
  const { hash, createHash } = cryptoModule()
  // Node 20.12 and later: one call instead of three, and twice as fast.
  return hash === undefined ? createHash('sha256').update(text).digest('hex') : hash('sha256', text, 'hex')
}

function hmacSha256(secret: string): (text: string) => string {
  const { createSecretKey, createHmac } = cryptoModule()
  const key = createSecretKey(secret, 'utf8')
  return (text) => createHmac('sha256', key).update(text).digest('hex')
}

/** The rules that do not change values. */
export const KEEP_EVERYTHING: KeyRules = new KeyRules({
  ...DEFAULTS,
  maxStringLength: Number.POSITIVE_INFINITY,
})
