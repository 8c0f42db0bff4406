import { isRecord } from '../../base/options/value-kinds.ts'
import { unionOfScopes } from '../../oauth/scope.ts'
import { methodNamed, type NamedKind, namesUri } from '../methods.ts'
import type { Caller } from '../wire/exchange.ts'
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

/** The access to an operation, which is computed when it is needed. */
interface Access {
  scopes(): readonly string[]
  /** Returns `true` if a request without a token may use the operation. */
  isPublic(): boolean
}

/** Returns the access to what a message names. A name or a URI that is not a string has no scopes. The SDK rejects it. */
function accessTo(kind: NamedKind, operations: ScopedOperations, params: Params): Access {
  const { name, uri, ref, notifications } = params
  const { skills, directories } = operations
  switch (kind) {
    case 'tool':
      return accessByName(operations.tools, name)
    case 'prompt':
      return accessByName(operations.prompts, name)
    case 'event':
      return accessByName(operations.events, name)
    case 'resource':
      return accessByUri(operations, uri)
    case 'skill':
      return accessByUri(withResources(operations, skills), uri)
    case 'skills':
      return { scopes: () => [], isPublic: () => skills !== undefined }
    case 'directory': {
      const own = accessByUri(withResources(operations, directories), uri)
      if (directories !== undefined || typeof uri !== 'string') return own
      // A router function does not say which directories it has, so one of them needs the scopes of a file in it, too.
      const file = accessByUri(operations, `${uri.split(/[?#]/, 1)[0]}/SKILL.md`)
      return {
        scopes: () => unionOfScopes(own.scopes(), file.scopes()),
        isPublic: () => file.isPublic() && own.scopes().length === 0,
      }
    }
    case 'reference': {
      if (ref?.type === 'ref/prompt') return accessByName(operations.prompts, ref.name)
      const templates = templatesNamed(operations, ref?.uri)
      const access =
        templates === undefined
          ? accessByUri(operations, ref?.uri)
          : {
              scopes: () => unionOfScopes(...templates.map(({ scopes }) => scopes)),
              isPublic: () => templates.length > 0 && templates.every(isOpen),
            }
      return { ...access, isPublic: () => ref?.type === 'ref/resource' && access.isPublic() }
    }
    case 'subscription': {
      const uris = notifications?.resourceSubscriptions
      const named = Array.isArray(uris) && uris.length <= MAX_LISTENED_URIS ? uris : []
      return {
        scopes: () => unionOfScopes(...named.map((one) => accessByUri(operations, one).scopes())),
        isPublic: () => false,
      }
    }
  }
}

function accessByName(entries: ReadonlyMap<string, Scoped> | undefined, name: unknown): Access {
  const entry = typeof name === 'string' ? entries?.get(name) : undefined
  return { scopes: () => entry?.scopes ?? [], isPublic: () => entry !== undefined && isOpen(entry) }
}

function accessByUri(resources: ScopedResources, uri: unknown): Access {
  return {
    scopes: () => (typeof uri === 'string' ? scopesOfUri(resources, uri) : []),
    isPublic: () => typeof uri === 'string' && isPublicUri(resources, uri),
  }
}

/** Returns the templates of `operations` with other resources, if there are any. */
function withResources(
  operations: ScopedOperations,
  resources: ReadonlyMap<string, Scoped> | undefined,
): ScopedResources {
  return resources === undefined ? operations : { resources, templates: operations.templates }
}

/** Returns the templates that a reference names, or undefined if it names a resource by its URI. */
function templatesNamed(
  { templates }: ScopedOperations,
  uri: unknown,
): readonly ScopedTemplate[] | undefined {
  if (typeof uri !== 'string' || !uri.includes('{') || uri.length > MAX_URI_LENGTH) return undefined
  const template = canonicalTemplate(uri)
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
      return names === undefined ? [] : accessTo(names, operations, params ?? {}).scopes()
    }),
  )
}

/** Returns `true` if the token of a request has these scopes. Without a token, only an operation without scopes is permitted. */
export function permitsScopes(
  { gate, auth }: Pick<Caller, 'gate' | 'auth'>,
  scopes: readonly string[],
): boolean {
  return gate === undefined || auth === undefined ? scopes.length === 0 : gate.permits(auth.scopes, scopes)
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
  return accessTo(names, operations, params ?? {}).isPublic()
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

/** Returns a message with canonical URIs, or the reason why its request is refused. */
export function withCanonicalUris(body: unknown): { readonly body: unknown } | RefusedUri {
  const listening = withCanonicalSubscriptions(body)
  if ('message' in listening && !namesRejectedUri(body)) return { body: listening.message }
  const problem = 'problem' in listening ? listening.problem : 'The resource URI is not valid'
  const { id } = body as { id?: unknown }
  // A message without an id is not a request. The SDK handles it.
  return typeof id === 'string' || typeof id === 'number' ? { id, problem } : { body }
}

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
