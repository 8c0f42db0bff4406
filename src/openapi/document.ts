import type { Validator } from '@seriousme/openapi-schema-validator'
import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { isRecord } from '../base/options/value-kinds.ts'
import { peerProblem } from '../base/peer-problem.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'

const { invalidKind, invalidOption } = optionChecksOf('toolsFromOpenApi')

/** The optional peers of this entry, with the versions of package.json, so that one command installs all of them. */
const COMMAND = 'npm install @seriousme/openapi-schema-validator@2 light-my-request@6.6 yaml@2'

/**
 * Returns the error for an optional peer that could not be imported. Write `await import('…')` inside of `try` where it is called:
 * bundlers accept it only in this form if the package is not installed.
 * @param option the option that needs the package.
 */
export function notLoaded(option: string, cause: unknown): Error {
  const { reason, fix } = peerProblem(cause, COMMAND)
  return invalidOption(option, `needs packages that ${reason}. ${fix}`)
}

/** Any object of a document. */
export type Node = { readonly [member: string]: unknown }

/** A valid document. It resolves local references. */
export class OpenApiDocument {
  readonly root: Node
  /** `true` if the schemas are those of OpenAPI 3.0, and not JSON Schema 2020-12. */
  readonly is30: boolean

  constructor(root: Node) {
    this.root = root
    this.is30 = String(root.openapi).startsWith('3.0')
  }

  /** Returns a node with references resolved. Returns undefined if a reference is broken or circular. */
  resolve(node: unknown): Node | undefined {
    let found = node
    for (let hops = 0; hops < 32; hops++) {
      if (!isOptionsObject(found)) return undefined
      const { $ref } = found as Node
      if (typeof $ref !== 'string') return found as Node
      found = this.at($ref)
    }
    return undefined
  }

  /** Returns the node at a JSON pointer in a URL fragment (`#/components/…`). */
  at(ref: string): unknown {
    if (!ref.startsWith('#/')) return undefined
    let found: unknown = this.root
    for (const step of pointerOf(ref)) {
      if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
      found = (found as Node)[step]
    }
    return found
  }
}

/** Returns the steps of a JSON pointer such as `#/a/b~1c` (RFC 6901). */
export function pointerOf(ref: string): string[] {
  const steps = ref.slice(2).split('/')
  return steps.map((step) => unescaped(step).replaceAll('~1', '/').replaceAll('~0', '~'))
}

function unescaped(step: string): string {
  return tryOrUndefined(() => decodeURIComponent(step)) ?? step
}

/**
 * Reads an OpenAPI 3.0 or 3.1 document: an object, or a string of JSON or YAML. It does not fetch URLs or read files. A document
 * with external `$ref`s must be bundled first.
 * @throws {KitMcpConfigError} if the document is invalid. The message names the place.
 */
export async function readDocument(document: unknown): Promise<OpenApiDocument> {
  const root = await parse(document)
  const version = root.openapi
  const stated = version ?? root.swagger
  const problem = typeof stated === 'string' ? `, not ${stated.slice(0, 16)}` : `: 'openapi' is missing`
  if (typeof version !== 'string' || !/^3\.[01]\.\d+/.test(version))
    throw wrong(`must be of OpenAPI 3.0 or 3.1${problem}`)
  const result = await validate(root)
  if (!result.valid) throw wrong(complaintOf(result.errors))
  return new OpenApiDocument(root)
}

/** The compiled validator. Compiling takes longer than validating most documents. */
let validator: Promise<Validator> | undefined

async function loadValidator(): Promise<Validator> {
  try {
    const { Validator } = await import('@seriousme/openapi-schema-validator')
    return new Validator({ validateFormats: false })
  } catch (cause) {
    throw notLoaded('document', cause)
  }
}

async function loadYaml() {
  try {
    return await import('yaml')
  } catch (cause) {
    throw notLoaded('document', cause)
  }
}

async function validate(root: Node): Promise<{ readonly valid: boolean; readonly errors?: unknown }> {
  // Formats are not validated: a `pattern` of another dialect must not make a document invalid.
  validator ??= loadValidator()
  const loaded = await validator
  try {
    return await loaded.validate(root as Record<string, unknown>)
  } catch (cause) {
    throw wrong(`cannot be read: ${cause instanceof Error ? cause.message : 'the validator failed'}`)
  } finally {
    // Otherwise the validator keeps the latest document in memory.
    delete (loaded as { specification?: unknown }).specification
  }
}

async function parse(document: unknown): Promise<Node> {
  if (typeof document === 'string') return await parseText(document)
  if (!isRecord(document))
    throw invalidKind('document', 'must be an object or a string of JSON or YAML', document)
  try {
    // A copy, so that later changes of the object have no effect.
    return JSON.parse(JSON.stringify(document)) as Node
  } catch {
    throw wrong('must not contain itself. Pass the document with its $refs, not dereferenced')
  }
}

async function parseText(text: string): Promise<Node> {
  let parsed: unknown
  if (text.trimStart().startsWith('{')) {
    try {
      parsed = JSON.parse(text)
    } catch (cause) {
      throw wrong(`is not valid JSON: ${withoutQuote((cause as Error).message)}`)
    }
  } else {
    const { parse: parseYaml } = await loadYaml()
    try {
      parsed = parseYaml(text)
    } catch (cause) {
      throw wrong(`is not valid YAML: ${String((cause as Error).message).split('\n')[0]}`)
    }
  }
  if (!isOptionsObject(parsed)) throw wrong('must be the content of a document, not its path or URL')
  return parsed as Node
}

/** Returns V8's message about invalid JSON, without the quoted part of the JSON. */
function withoutQuote(message: string): string {
  return message.replace(/,? (?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s, '')
}

interface Complaint {
  readonly instancePath: string
  readonly message?: string
  readonly params?: { readonly unevaluatedProperty?: string; readonly additionalProperty?: string }
}

/** Describes the deepest error. The errors around it follow from it. */
function complaintOf(errors: unknown): string {
  if (typeof errors === 'string') {
    const [, ref] = /^Can't resolve ([^\s,]+)/.exec(errors) ?? []
    if (ref === undefined) return errors
    const why = ref.startsWith('#')
      ? 'does not exist'
      : 'is outside the document and is not fetched. Bundle the document first'
    return `is wrong: $ref '${ref}' ${why}`
  }
  const depth = ({ instancePath }: Complaint): number => instancePath.split('/').length
  const [deepest] = (errors as readonly Complaint[]).toSorted((a, b) => depth(b) - depth(a))
  const { instancePath = '', message = 'does not match the OpenAPI schema', params } = deepest ?? {}
  const member = params?.unevaluatedProperty ?? params?.additionalProperty
  return `is wrong at #${instancePath}: ${message}${member === undefined ? '' : ` ('${member}')`}`
}

function wrong(complaint: string): Error {
  return invalidOption('document', complaint)
}
