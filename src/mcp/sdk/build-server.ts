import {
  type CallToolRequest,
  type CallToolResult,
  type CompleteRequest,
  type GetPromptRequest,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceRequest,
  type Resource,
  ResourceNotFoundError,
  type Result,
  Server,
  type ServerContext,
  type ServerOptions,
} from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { ownerOf } from '../../oauth/owner.ts'
import type { EventMethod, Events } from '../events/events.ts'
import { isServed, methodNamed, SERVED_METHODS, type ServedMethod } from '../methods.ts'
import { complete } from '../operations/complete.ts'
import { callContext, repeatedUri, requestedUri, runSafely, type Serving } from '../operations/operation.ts'
import { permittedEntries } from '../operations/policy.ts'
import { getPrompt } from '../operations/prompt-get.ts'
import { readResource } from '../operations/resource-read.ts'
import { listSkills, readSkill, readSkillDirectory } from '../operations/skills.ts'
import { callTool } from '../operations/tool-call.ts'
import type { ServerInfo } from '../options.ts'
import type { OperationKind } from '../router/middleware.ts'
import { permitsScopes } from '../router/named-operations.ts'
import { findResource, type RouterTable } from '../router/router-table.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import { isOpen, isPublicUri, type Scoped, scopesOfUri } from '../router/uris/uri-scopes.ts'
import type { Tasks, TaskTool } from '../tasks/tasks.ts'
import { isAnonymous } from '../wire/exchange.ts'

/**
 * Returns a server of the official SDK for a router. A server for one request has handlers only for the methods of its messages,
 * so that the request does not pay for other methods.
 * @param servingOf returns the data of a request by the SDK's context of that request.
 * @param methods the methods that need handlers. Defaults to all, for a session.
 */
export function buildServer(
  table: RouterTable,
  servingOf: (sdk: ServerContext) => SdkServing,
  info: ServerInfo,
  options: ServerOptions,
  methods: Iterable<unknown> = SERVED_METHODS,
): Server {
  const server = new Server(info, options)
  for (const method of methods) addHandler(server, method, table, servingOf)
  return server
}

/**
 * Like `buildServer`, for requests whose headers have to be compared with arguments. The SDK compares `Mcp-Param-*` headers only
 * for a `McpServer`, with the schema that it returns for the tool.
 */
export function buildCheckingServer(
  serving: SdkServing,
  info: ServerInfo,
  { capabilities = {}, ...options }: ServerOptions,
  methods: Iterable<unknown>,
): McpServer {
  const { table } = serving
  const checking = new McpServer(info, options)
  checking.server.registerCapabilities(capabilities)
  checking.toolInputSchemaJson = (name) => {
    const tool = table.tools.get(name)
    return tool?.declaresHeaders === true ? tool.definition.inputSchema : undefined
  }
  for (const method of methods) addHandler(checking.server, method, table, () => serving)
  return checking
}

/** The data of a request, and the tasks of the adapter if a tool runs as a task. */
export interface SdkServing extends Serving {
  readonly tasks?: Tasks | undefined
  /** Undefined if no event type is declared. */
  readonly events: Events | undefined
}

/** Accepts all parameters. The handlers check them. */
const ANY_PARAMS: StandardSchemaV1<Record<string, unknown>> = {
  '~standard': {
    version: 1,
    vendor: 'mcp-gatekit',
    validate: (value) => ({ value: value as Record<string, unknown> }),
  },
}

type Handled = Result | Record<string, unknown>

/** Serves a request, whose parameters the SDK has validated, unless the method belongs to an extension. */
type Handler = (
  serving: SdkServing,
  request: { readonly method: string; readonly params: any },
  sdk: ServerContext,
  server: Server,
) => Handled | Promise<Handled>

const HANDLERS: Readonly<Record<ServedMethod, Handler>> = {
  'tools/list': async (serving, _request, sdk) => ({
    tools: await listed(serving, sdk, 'tool', chosenTools(serving)),
  }),
  'tools/call': (serving, call, sdk, server) => {
    const { tasks, table } = serving
    const request = call as CallToolRequest
    const tool = tasks && table.tools.get(request.params.name)
    return tasks === undefined || tool?.task === undefined
      ? callTool(serving, request, sdk, server)
      : tasks.call(serving, request, sdk, server, tool as TaskTool)
  },
  'prompts/list': async (serving, _request, sdk) => ({
    prompts: await listed(serving, sdk, 'prompt', serving.table.prompts),
  }),
  'prompts/get': (serving, get, sdk) => getPrompt(serving, get as GetPromptRequest, sdk),
  'completion/complete': (serving, request, sdk) => complete(serving, request as CompleteRequest, sdk),
  'resources/list': async (serving, request, sdk) => ({
    resources: [
      ...(await listed(serving, sdk, 'resource', serving.table.listedResources)),
      ...(await listedByTemplates(serving, request, sdk)),
    ],
  }),
  'resources/templates/list': async (serving, _request, sdk) => ({
    resourceTemplates: await listed(serving, sdk, 'resource', new Map(serving.table.templates.entries())),
  }),
  'resources/read': (serving, read, sdk) => readResource(serving, read as ReadResourceRequest, sdk),
  'resources/subscribe': ({ subscriptions, exchange, table }, { params: { uri } }) => {
    const canonical = requestedUri(uri)
    if (findResource(table, canonical) === undefined) throw new ResourceNotFoundError(repeatedUri(uri))
    subscriptions.subscribe(ownerOf(exchange.auth), canonical)
    return {}
  },
  'resources/unsubscribe': ({ subscriptions, exchange }, { params: { uri } }) => {
    subscriptions.unsubscribe(ownerOf(exchange.auth), requestedUri(uri))
    return {}
  },
  'skills/list': async (serving, { params }, sdk) =>
    listSkills(serving, await listed(serving, sdk, 'resource', serving.table.skills), params, sdk),
  'skills/get': (serving, { params }, sdk) => readSkill(serving, params, sdk),
  'resources/directory/read': (serving, { params }, sdk) => readSkillDirectory(serving, params, sdk),
  'tasks/get': (serving, _request, sdk) => given(serving.tasks).get(serving, sdk),
  'tasks/update': (serving, _request, sdk, server) => given(serving.tasks).update(serving, sdk, server),
  'tasks/cancel': (serving, _request, sdk) => given(serving.tasks).cancel(serving, sdk),
  'events/list': serveEvents,
  'events/poll': serveEvents,
  'events/stream': serveEvents,
  'events/subscribe': serveEvents,
  'events/unsubscribe': serveEvents,
}

/** Adds the handler of a method, unless the router has no operations for it. */
function addHandler(
  server: Server,
  method: unknown,
  table: RouterTable,
  servingOf: (sdk: ServerContext) => SdkServing,
): void {
  if (!isServed(method) || !isOffered(table, method)) return
  const handler = HANDLERS[method]
  if (methodNamed(method)?.isExtension)
    // With a schema, the SDK serves a method also in a revision that has removed it.
    server.setRequestHandler(method as string, { params: ANY_PARAMS }, async (params, sdk) =>
      handler(servingOf(sdk), { method, params }, sdk, server),
    )
  else
    server.setRequestHandler(
      method as 'tools/call',
      (request, sdk) => handler(servingOf(sdk), request, sdk, server) as CallToolResult,
    )
}

function serveEvents(
  serving: SdkServing,
  { method, params }: Parameters<Handler>[1],
  sdk: ServerContext,
): Promise<Record<string, unknown>> {
  return given(serving.events).serve(method as EventMethod, serving, params, sdk)
}

/** @throws {ProtocolError} -32601 if the connection does not serve the methods. */
function given<Served>(served: Served | undefined): Served {
  if (served === undefined) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
  return served
}

/** Returns `true` if a router has operations of the kind that a method is about. */
function isOffered(table: RouterTable, method: ServedMethod): boolean {
  if (method === 'resources/directory/read') return table.skills.size > 0
  const kind = method.slice(0, method.indexOf('/'))
  switch (kind) {
    case 'completion':
      return table.capabilities.completions !== undefined
    case 'skills':
    case 'events':
      return table[kind].size > 0
    case 'tasks':
      return table.hasTasks
    default:
      return Object.hasOwn(table.capabilities, kind)
  }
}

/** Returns the tools of the toolsets that a request has chosen. */
function chosenTools({ table, toolsets, exchange }: Serving): RouterTable['tools'] {
  const chosen = toolsets?.chosenBy(exchange.context.request)
  return chosen === undefined ? table.tools : new Map([...table.tools].filter(([name]) => chosen.has(name)))
}

interface Listable<Definition> extends Scoped {
  readonly definition: Definition
  /** The URI or template in canonical form. */
  readonly canonical?: string
}

/** Returns the definitions in a list. */
async function listed<Definition extends { readonly name: string }>(
  serving: Serving,
  sdk: ServerContext,
  kind: OperationKind,
  entries: ReadonlyMap<unknown, Listable<Definition>>,
): Promise<Definition[]> {
  const all = [...entries.values()]
  const shown = serving.listOnlyPermitted ? all.filter((entry) => permits(serving, entry)) : all
  if (serving.policy === undefined) return shown.map(({ definition }) => definition)
  return await permittedEntries(
    serving.policy,
    serving.exchange,
    sdk.mcpReq,
    shown.map(({ definition, canonical }) => ({
      entry: definition,
      kind,
      name: definition.name,
      // A template does not have a URI.
      ...(canonical !== undefined && !('uriTemplate' in definition) && { uri: canonical }),
    })),
  )
}

/** Returns `true` if the token has the scopes of an entry. A request that is served without a token needs a public entry. */
function permits({ exchange, table }: Serving, entry: Scoped & { readonly definition: object }): boolean {
  if (!isAnonymous(exchange)) return permitsScopes(exchange, entry.scopes)
  const { uri } = entry.definition as { readonly uri?: unknown }
  return isOpen(entry) && (typeof uri !== 'string' || isPublicUri(table, uri))
}

/** Returns `true` if the token may read a URI. */
function permitsUri({ exchange, table }: Serving, uri: string): boolean {
  return isAnonymous(exchange) ? isPublicUri(table, uri) : permitsScopes(exchange, scopesOfUri(table, uri))
}

/**
 * Returns the resources that templates list. It leaves out the templates whose scopes the token lacks, and the resources that
 * the token may not read. Without a token, only public templates are asked: the others may list resources of a user.
 */
async function listedByTemplates(
  serving: Serving,
  request: { readonly method: string; readonly params?: object | undefined },
  sdk: ServerContext,
): Promise<Resource[]> {
  const resources: { readonly entry: Resource; readonly template: string }[] = []
  for (const template of serving.table.templates) {
    const { list, definition } = template
    if (list === undefined || !permits(serving, template)) continue
    const context = callContext(serving, sdk)
    const own = await runSafely(
      serving,
      { method: request.method, params: {} },
      sdk,
      'Listing the resources',
      async () => {
        const { mimeType } = definition
        const shared = mimeType === undefined ? {} : { mimeType }
        return (await list(context)).map((resource) => ({ ...shared, ...resource }))
      },
    )
    for (const resource of own) {
      if (permitsUri(serving, resource.uri)) resources.push({ entry: resource, template: definition.name })
    }
  }
  const { policy, exchange } = serving
  if (policy === undefined) return resources.map(({ entry }) => entry)
  return await permittedEntries(
    policy,
    exchange,
    sdk.mcpReq,
    resources.map(({ entry, template }) => {
      const uri = canonicalUri(entry.uri)
      const read = uri === undefined ? undefined : findResource(serving.table, uri)
      // Another template, or a resource, may serve the URI.
      const name = read?.entry.definition.name ?? template
      return { entry, kind: 'resource', name, uri: uri ?? entry.uri }
    }),
  )
}
