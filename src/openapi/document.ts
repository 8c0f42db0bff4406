import type { Validator } from '@seriousme/openapi-schema-validator'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { loadPeer } from './optional-peers.ts'

const { invalidKind, invalidOption } = optionChecksOf('toolsFromOpenApi')

/** Any object of a document. */
export type Node = { readonly [member: string]: unknown }

/** A document that was found valid, and its local references. */
export class OpenApiDocument {
  readonly root: Node
  /** Whether its schemas are those of OpenAPI 3.0, not JSON Schema 2020-12. */
  readonly is30: boolean

  constructor(root: Node) {
    this.root = root
    this.is30 = String(root.openapi).startsWith('3.0')
  }

  /** What `node` is, references followed; undefined when one leads nowhere or in a circle. */
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

  /** What stands at a JSON pointer in a URL fragment (`#/components/…`). */
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

/** The steps of `#/a/b~1c` (RFC 6901). */
export function pointerOf(ref: string): string[] {
  const steps = ref.slice(2).split('/')
  return steps.map((step) => unescaped(step).replaceAll('~1', '/').replaceAll('~0', '~'))
}

function unescaped(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

/**
 * Reads an OpenAPI 3.0 or 3.1 document: an object, or its text as JSON or YAML. Nothing is fetched and no file read:
 * a document whose `$ref`s lead elsewhere must be bundled first.
 * @throws {KitMcpConfigError} naming the place where the document is wrong.
 */
export async function readDocument(document: unknown): Promise<OpenApiDocument> {
  const root = await parse(document)
  const version = root.openapi
  if (typeof version !== 'string' || !/^3\.[01]\.\d+/.test(version)) {
    const given = version ?? root.swagger
    throw wrong(
      `must be of OpenAPI 3.0 or 3.1${typeof given === 'string' ? `, not ${given.slice(0, 16)}` : `: 'openapi' is missing`}`,
    )
  }
  const result = await validate(root)
  if (!result.valid) throw wrong(complaintOf(result.errors, root))
  return new OpenApiDocument(root)
}

/** Compiled once: that takes longer than most documents. */
let validator: Promise<Validator> | undefined

async function validate(root: Node): Promise<{ readonly valid: boolean; readonly errors?: unknown }> {
  // Formats are not looked at: a `pattern` of another dialect is no reason to refuse a document.
  validator ??= loadPeer('document', () => import('@seriousme/openapi-schema-validator')).then(
    (module) => new module.Validator({ validateFormats: false }),
  )
  const loaded = await validator
  try {
    return await loaded.validate(root as Record<string, unknown>)
  } catch (cause) {
    throw wrong(`cannot be read: ${cause instanceof Error ? cause.message : 'the validator failed'}`)
  } finally {
    // It keeps the latest document otherwise.
    delete (loaded as { specification?: unknown }).specification
  }
}

async function parse(document: unknown): Promise<Node> {
  if (typeof document === 'string') return await parseText(document)
  if (!isOptionsObject(document))
    throw invalidKind('document', 'must be an object, or text in JSON or YAML', document)
  try {
    // A copy, so that changing the object later changes nothing.
    return JSON.parse(JSON.stringify(document)) as Node
  } catch {
    throw wrong('refers to itself as an object: give it with its $refs, not dereferenced')
  }
}

async function parseText(text: string): Promise<Node> {
  let parsed: unknown
  if (text.trimStart().startsWith('{')) {
    try {
      parsed = JSON.parse(text)
    } catch (cause) {
      throw wrong(`is no JSON: ${withoutQuote((cause as Error).message)}`)
    }
  } else {
    const { parse: parseYaml } = await loadPeer('document', () => import('yaml'))
    try {
      parsed = parseYaml(text)
    } catch (cause) {
      throw wrong(`is no YAML: ${String((cause as Error).message).split('\n')[0]}`)
    }
  }
  if (!isOptionsObject(parsed)) throw wrong('must be the text of a document, not its path or URL')
  return parsed as Node
}

/** What V8 says of wrong JSON, without the piece of it that is quoted there. */
function withoutQuote(message: string): string {
  return message.replace(/,? (?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s, '')
}

interface Complaint {
  readonly instancePath: string
  readonly message?: string
  readonly params?: { readonly unevaluatedProperty?: string; readonly additionalProperty?: string }
}

/** The deepest complaint says most; those around it follow from it. */
function complaintOf(errors: unknown, root: Node): string {
  if (typeof errors === 'string') {
    const [, ref] = /^Can't resolve ([^\s,]+)/.exec(errors) ?? []
    if (ref === undefined) return errors
    const where = placeOf(ref, root)
    const why = ref.startsWith('#')
      ? 'leads nowhere'
      : 'leads out of the document and is not fetched: bundle the document first'
    return `is wrong at ${where}: $ref '${ref}' ${why}`
  }
  let deepest: Complaint | undefined
  for (const error of errors as readonly Complaint[]) {
    if (deepest === undefined || depth(error) > depth(deepest)) deepest = error
  }
  const { instancePath = '', message = 'is not as OpenAPI wants it', params } = deepest ?? {}
  const member = params?.unevaluatedProperty ?? params?.additionalProperty
  return `is wrong at #${instancePath}: ${message}${member === undefined ? '' : ` ('${member}')`}`
}

function depth({ instancePath }: Complaint): number {
  return instancePath.split('/').length
}

/** Where the first `$ref` to `ref` stands. */
function placeOf(ref: string, root: Node): string {
  const open: [string, unknown][] = [['#', root]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [place, node] = next
    if (typeof node !== 'object' || node === null) continue
    for (const [member, value] of Object.entries(node)) {
      if (member === '$ref' && (value === ref || unescaped(String(value)) === ref)) return place
      open.push([`${place}/${member.replaceAll('~', '~0').replaceAll('/', '~1')}`, value])
    }
  }
  return '#'
}

function wrong(complaint: string): Error {
  return invalidOption('document', complaint)
}
