import { unionOfScopes } from '../../oauth/scope.ts'
import { isRecord } from '../../options/value-kinds.ts'
import { methodNamed, type NamedKind, namesUri } from '../methods.ts'
import { canonicalTemplate } from './uris/canonical-template.ts'
import { canonicalUri, hasControlCharacter, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import {
  isOpen,
  isPublicUri,
  type Scoped,
  type ScopedResources,
  type ScopedTemplate,
  scopesOfUri,
} from './uris/uri-scopes.ts'

/** The operations that need scopes in addition to those of the endpoint. A router's table is one. */
export interface ScopedOperations extends ScopedResources {
  /** Every scope that any operation names. */
  readonly scopes: readonly string[]
  readonly tools: ReadonlyMap<string, Scoped>
  readonly prompts: ReadonlyMap<string, Scoped>
  /** The event types of a router. */
  readonly events?: ReadonlyMap<string, Scoped>
  /** The skills of a router by the canonical URI of `SKILL.md`. Those of a router function are resources. */
  readonly skills?: ReadonlyMap<string, Scoped>
  /** The directories of the skills of a router by canonical URI. */
  readonly directories?: ReadonlyMap<string, Scoped>
}

interface Params {
  readonly name?: unknown
  readonly uri?: unknown
  readonly ref?: { readonly type?: unknown; readonly name?: unknown; readonly uri?: unknown } | null
  readonly notifications?: { readonly resourceSubscriptions?: unknown } | null
}

interface Message {
  readonly method?: unknown
  readonly params?: Params | null
}

/** The maximum number of resources in one `subscriptions/listen`. */
export const MAX_LISTENED_URIS = 1_024

/** The access to the operations of one kind. A name or a URI that is not a string has no scopes. The SDK rejects it. */
interface Access {
  scopes(operations: ScopedOperations, params: Params): readonly string[]
  /** Returns `true` if a request without a token may use the operation. */
  isPublic(operations: ScopedOperations, params: Params): boolean
}

const ACCESS: Readonly<Record<NamedKind, Access>> = {
  tool: accessByName('tools'),
  prompt: accessByName('prompts'),
  event: accessByName('events'),
  resource: accessByUri((operations) => operations),
  skill: accessByUri((operations) => withResources(operations, operations.skills)),
  skills: { scopes: () => [], isPublic: ({ skills }) => skills !== undefined },
  directory: {
    // A router function does not say which directories it has, so one of them needs the scopes of a file in it, too.
    scopes(operations, { uri }) {
      if (typeof uri !== 'string') return []
      const { directories } = operations
      const own = scopesOfUri(withResources(operations, directories), uri)
      return directories === undefined ? unionOfScopes(own, scopesOfUri(operations, fileIn(uri))) : own
    },
    isPublic(operations, { uri }) {
      if (typeof uri !== 'string') return false
      const { directories } = operations
      return directories === undefined
        ? isPublicUri(operations, fileIn(uri)) && scopesOfUri(operations, uri).length === 0
        : isPublicUri(withResources(operations, directories), uri)
    },
  },
  reference: {
    scopes(operations, { ref }) {
      const { type, name, uri } = ref ?? {}
      if (type === 'ref/prompt') return ACCESS.prompt.scopes(operations, { name })
      if (typeof uri !== 'string') return []
      const named = templatesNamed(operations, uri)
      return named === undefined
        ? scopesOfUri(operations, uri)
        : unionOfScopes(...named.map(({ scopes }) => scopes))
    },
    isPublic(operations, { ref }) {
      const { type, name, uri } = ref ?? {}
      if (type === 'ref/prompt') return ACCESS.prompt.isPublic(operations, { name })
      if (type !== 'ref/resource' || typeof uri !== 'string') return false
      const named = templatesNamed(operations, uri)
      return named === undefined ? isPublicUri(operations, uri) : named.length > 0 && named.every(isOpen)
    },
  },
  subscription: {
    scopes(operations, { notifications }) {
      const uris = notifications?.resourceSubscriptions
      if (!Array.isArray(uris) || uris.length > MAX_LISTENED_URIS) return []
      return unionOfScopes(...uris.map((uri) => ACCESS.resource.scopes(operations, { uri })))
    },
    isPublic: () => false,
  },
}

function accessByName(kind: 'tools' | 'prompts' | 'events'): Access {
  const entryOf = (operations: ScopedOperations, { name }: Params): Scoped | undefined =>
    typeof name === 'string' ? operations[kind]?.get(name) : undefined
  return {
    scopes: (operations, params) => entryOf(operations, params)?.scopes ?? [],
    isPublic(operations, params) {
      const entry = entryOf(operations, params)
      return entry !== undefined && isOpen(entry)
    },
  }
}

function accessByUri(resourcesOf: (operations: ScopedOperations) => ScopedResources): Access {
  return {
    scopes: (operations, { uri }) =>
      typeof uri === 'string' ? scopesOfUri(resourcesOf(operations), uri) : [],
    isPublic: (operations, { uri }) => typeof uri === 'string' && isPublicUri(resourcesOf(operations), uri),
  }
}

/** Returns the templates of `operations` with other resources, if there are any. */
function withResources(
  operations: ScopedOperations,
  resources: ReadonlyMap<string, Scoped> | undefined,
): ScopedResources {
  return resources === undefined ? operations : { resources, templates: operations.templates }
}

function fileIn(directory: string): string {
  const [path] = directory.split(/[?#]/, 1)
  return `${path}/SKILL.md`
}

/** Returns the templates that a reference names, or undefined if it names a resource by its URI. */
function templatesNamed({ templates }: ScopedOperations, uri: string): readonly ScopedTemplate[] | undefined {
  const template = uri.includes('{') && uri.length <= MAX_URI_LENGTH ? canonicalTemplate(uri) : undefined
  if (template === undefined || template.expressions.length === 0) return undefined
  return templates.filter(({ matcher }) => matcher.canonical === template.text)
}

/** Returns all scopes that the operations of these messages need. */
export function neededScopes(operations: ScopedOperations, messages: readonly unknown[]): readonly string[] {
  if (operations.scopes.length === 0) return []
  return unionOfScopes(
    ...messages.map((message) => {
      const { method, params } = (message ?? {}) as Message
      const names = methodNamed(method)?.names
      return names === undefined ? [] : ACCESS[names].scopes(operations, params ?? {})
    }),
  )
}

/**
 * Returns `true` if a request without a token may send these messages: each discovers the server or uses a public operation.
 * Everything else needs a token, including unknown methods and names, and values that are not messages.
 */
export function arePublic(
  operations: ScopedOperations | undefined,
  messages: readonly unknown[],
): messages is readonly [unknown, ...unknown[]] {
  return messages.length > 0 && messages.every((message) => isPublicMessage(operations, message))
}

function isPublicMessage(operations: ScopedOperations | undefined, message: unknown): boolean {
  if (!isRecord(message) || 'result' in message || 'error' in message) return false
  const { method, params } = message as Message
  const { anonymous, names } = methodNamed(method) ?? {}
  if (anonymous === 'all') return true
  if (anonymous !== 'public' || names === undefined || operations === undefined) return false
  return ACCESS[names].isPublic(operations, params ?? {})
}

/** Returns `true` if a message names a resource by a URI that is rejected. Ignores `subscriptions/listen`. */
export function namesRejectedUri(message: unknown): boolean {
  const { method, params } = (message ?? {}) as Message
  const known = methodNamed(method)
  if (namesUri(known)) return isRejected(params?.uri)
  if (known?.names !== 'reference') return false
  // A reference may be a template, which need not be a URI.
  return typeof params?.ref?.uri === 'string' && hasControlCharacter(params.ref.uri)
}

/** A request that is refused because of a URI. */
export interface RefusedUri {
  readonly id: string | number
  readonly problem: string
}

/** Returns the body with canonical URIs, or the reason why its request is refused. */
export function withCanonicalUris(body: unknown): { readonly body: unknown } | RefusedUri {
  if (Array.isArray(body))
    return { body: body.map((message) => (namesRejectedUri(message) ? withoutUri(message) : message)) }
  const listening = withCanonicalSubscriptions(body)
  if ('message' in listening && !namesRejectedUri(body)) return { body: listening.message }
  const problem = 'problem' in listening ? listening.problem : 'The resource URI is not valid'
  const { id } = body as { id?: unknown }
  // A message without an id is not a request. The SDK handles it.
  return typeof id === 'string' || typeof id === 'number' ? { id, problem } : { body: withoutUri(body) }
}

/** Returns a copy of a message that does not name a resource, so that its response is an error (-32602). */
function withoutUri(message: unknown): unknown {
  const { params } = message as Message
  const { ref, notifications, ...others } = params ?? {}
  return {
    ...(message as object),
    params: {
      ...others,
      ...(others.uri !== undefined && { uri: '' }),
      ...(ref !== undefined && { ref: { ...ref, uri: '' } }),
    },
  }
}

/** Returns `false` for a value that is not a string. The schema of the method rejects it. */
function isRejected(uri: unknown): boolean {
  return typeof uri === 'string' && canonicalUri(uri) === undefined
}

/**
 * Brings the URIs of a `subscriptions/listen` into canonical form.
 * @returns the message with canonical URIs, each once, or the reason why it is rejected. Returns any other message unchanged.
 */
export function withCanonicalSubscriptions(
  message: unknown,
): { readonly message: unknown } | { readonly problem: string } {
  const { method, params } = (message ?? {}) as Message
  const isListening = methodNamed(method)?.names === 'subscription'
  const uris = isListening ? params?.notifications?.resourceSubscriptions : undefined
  if (!Array.isArray(uris)) return { message }
  if (uris.length > MAX_LISTENED_URIS)
    return { problem: `A subscription may name at most ${MAX_LISTENED_URIS} resources` }
  const canonical = new Set<unknown>()
  for (const uri of uris) {
    if (isRejected(uri)) return { problem: 'A URI of resourceSubscriptions is not valid' }
    canonical.add(typeof uri === 'string' ? canonicalUri(uri) : uri)
  }
  const notifications = { ...params?.notifications, resourceSubscriptions: [...canonical] }
  return { message: { ...(message as object), params: { ...params, notifications } } }
}
