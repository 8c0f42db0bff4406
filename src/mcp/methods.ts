/** The operation that the parameters of a message name. */
export type NamedKind =
  | 'tool'
  | 'prompt'
  | 'resource'
  /** A prompt, a template, or a resource, to complete an argument. */
  | 'reference'
  | 'skill'
  /** All skills. */
  | 'skills'
  | 'directory'
  /** The resources of a subscription. */
  | 'subscription'
  /** An event type. */
  | 'event'

/** The properties of a method. A property that is absent is false. */
export interface McpMethod {
  /** Absent if the message does not name an operation. Its scopes are then those of the endpoint. */
  readonly names?: NamedKind
  /** The requests without a token that `anonymous` permits: all, or those for a public operation. Absent if there are none. */
  readonly anonymous?: 'all' | 'public'
  /** The policy decides about each message. */
  readonly hasPolicy?: true
  /** A single request takes the fast path: always, or if it is one of a 2025 revision. */
  readonly isFast?: true | 'legacy'
  /** An extension defines the method, so that the SDK does not know its parameters. */
  readonly isExtension?: true
  /** The SDK serves the method by itself. */
  readonly servedBySdk?: true
}

/** All methods that the revisions of the protocol and their extensions let a client send. */
const METHODS = {
  'completion/complete': { names: 'reference', anonymous: 'public', isFast: true },
  'events/list': { anonymous: 'all', isExtension: true },
  'events/poll': { names: 'event', isExtension: true },
  'events/stream': { names: 'event', isExtension: true },
  'events/subscribe': { names: 'event', isExtension: true },
  'events/unsubscribe': { isExtension: true },
  initialize: { anonymous: 'all', isFast: 'legacy', servedBySdk: true },
  'logging/setLevel': { servedBySdk: true },
  'notifications/cancelled': { servedBySdk: true },
  'notifications/initialized': { anonymous: 'all', servedBySdk: true },
  'notifications/progress': { servedBySdk: true },
  'notifications/roots/list_changed': { servedBySdk: true },
  ping: { anonymous: 'all', isFast: 'legacy', servedBySdk: true },
  'prompts/get': { names: 'prompt', anonymous: 'public', hasPolicy: true, isFast: true },
  'prompts/list': { anonymous: 'all', isFast: true },
  'resources/directory/read': { names: 'directory', anonymous: 'public', hasPolicy: true, isExtension: true },
  'resources/list': { anonymous: 'all', isFast: true },
  'resources/read': { names: 'resource', anonymous: 'public', hasPolicy: true, isFast: true },
  'resources/subscribe': { names: 'resource' },
  'resources/templates/list': { anonymous: 'all', isFast: true },
  'resources/unsubscribe': { names: 'resource' },
  'server/discover': { anonymous: 'all', servedBySdk: true },
  'skills/get': { names: 'skill', anonymous: 'public', hasPolicy: true, isExtension: true },
  'skills/list': { names: 'skills', anonymous: 'public', isExtension: true },
  'subscriptions/listen': { names: 'subscription', servedBySdk: true },
  'tasks/cancel': { isExtension: true },
  'tasks/get': { isExtension: true },
  'tasks/update': { isExtension: true },
  'tools/call': { names: 'tool', anonymous: 'public', hasPolicy: true, isFast: true },
  'tools/list': { anonymous: 'all', isFast: true },
} as const satisfies Readonly<Record<string, McpMethod>>

type MethodName = keyof typeof METHODS

/** The methods that the servers of a router have handlers for. */
export type ServedMethod = {
  [Name in MethodName]: (typeof METHODS)[Name] extends { readonly servedBySdk: true } ? never : Name
}[MethodName]

const byName: ReadonlyMap<unknown, McpMethod> = new Map(Object.entries(METHODS))

/** Returns the method with a name. Returns undefined if the protocol does not have it. */
export function methodNamed(name: unknown): McpMethod | undefined {
  return byName.get(name)
}

/** Returns `true` if the servers of a router have a handler for a method. */
export function isServed(name: unknown): name is ServedMethod {
  const method = byName.get(name)
  return method !== undefined && method.servedBySdk !== true
}

export const SERVED_METHODS: readonly ServedMethod[] = [...byName.keys()].filter(isServed)

/** Returns `true` if `params.uri` of a method names one resource. */
export function namesUri(method: McpMethod | undefined): boolean {
  const names = method?.names
  return names === 'resource' || names === 'skill' || names === 'directory'
}

/** The revision without protocol sessions. The revisions before it are those of 2025. */
export const MODERN_REVISION = '2026-07-28'
