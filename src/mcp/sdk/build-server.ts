import {
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type Resource,
  ResourceNotFoundError,
  Server,
  type ServerContext,
  type ServerOptions,
} from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { ownerOf } from '../../oauth/owner.ts'
import { isServed, SERVED_METHODS, type ServedMethod } from '../methods.ts'
import { complete } from '../operations/complete.ts'
import { CallContext, runSafely, type Serving } from '../operations/operation.ts'
import { permittedEntries } from '../operations/policy.ts'
import { getPrompt } from '../operations/prompt-get.ts'
import { repeatedUri, requestedUri } from '../operations/requested-uri.ts'
import { readResource } from '../operations/resource-read.ts'
import { listSkills, readSkill, readSkillDirectory } from '../operations/skills.ts'
import { callTool } from '../operations/tool-call.ts'
import type { ServerInfo } from '../options.ts'
import type { OperationKind } from '../router/middleware.ts'
import { findResource, type RouterTable } from '../router/router-table.ts'
import { canonicalUri } from '../router/uris/canonical-uri.ts'
import { isOpen, isPublicUri, type Scoped, scopesOfUri } from '../router/uris/uri-scopes.ts'
import type { TaskTool } from '../tasks/task-calls.ts'
import type { Tasks } from '../tasks/tasks.ts'
import { isAnonymous } from '../wire/exchange.ts'

/**
 * Returns a server of the official SDK for a router and one request. The server has handlers only for `methods`, so that a
 * request does not pay for other methods.
 */
export function buildServer(
  serving: SdkServing,
  info: ServerInfo,
  options: ServerOptions,
  methods: Iterable<unknown>,
): Server | McpServer {
  if (!serving.table.declaresHeaders) return buildSimpleServer(serving, info, options, methods)
  const checking = new HeaderCheckingServer(serving.table, info, options)
  for (const method of methods) addHandler(checking.server, method, serving.table, () => serving)
  return checking
}

/** Like `buildServer`, for requests whose headers do not have to be compared with arguments. */
export function buildSimpleServer(
  serving: SdkServing,
  info: ServerInfo,
  options: ServerOptions,
  methods: Iterable<unknown>,
): Server {
  const server = new Server(info, options)
  for (const method of methods) addHandler(server, method, serving.table, () => serving)
  return server
}

/** Returns a server for a session. It has handlers for all methods. Each handler gets its `Serving` from `servingOf`. */
export function buildSessionServer(
  table: RouterTable,
  servingOf: ServingOf,
  info: ServerInfo,
  options: ServerOptions,
): Server {
  const server = new Server(info, options)
  for (const method of SERVED_METHODS) addHandler(server, method, table, servingOf)
  return server
}

/** The SDK compares `Mcp-Param-*` headers with arguments only for a `McpServer`, with the schema that this class returns. */
class HeaderCheckingServer extends McpServer {
  readonly #table: RouterTable

  constructor(table: RouterTable, info: ServerInfo, { capabilities = {}, ...options }: ServerOptions) {
    super(info, options)
    this.server.registerCapabilities(capabilities)
    this.#table = table
  }

  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    const tool = this.#table.tools.get(name)
    return tool?.declaresHeaders === true ? tool.definition.inputSchema : undefined
  }
}

/** The data of a request, and the tasks of the adapter if a tool runs as a task. */
export interface SdkServing extends Serving {
  readonly tasks: Tasks | undefined
}

/** Returns the `SdkServing` of a request by the SDK's context of that request. */
export type ServingOf = (sdk: ServerContext) => SdkServing

function addHandler(server: Server, method: unknown, table: RouterTable, servingOf: ServingOf): void {
  if (!isServed(method)) return
  const { capabilities } = table
  switch (method) {
    case 'tools/list':
      if (capabilities.tools)
        server.setRequestHandler(method, (_request, sdk) =>
          listResult(listed(servingOf(sdk), sdk, 'tool', table.tools), (tools) => ({ tools })),
        )
      break
    case 'tools/call':
      if (capabilities.tools)
        server.setRequestHandler(method, (call, sdk) => {
          const serving = servingOf(sdk)
          const tool = serving.tasks && table.tools.get(call.params.name)
          return serving.tasks === undefined || tool?.task === undefined
            ? callTool(serving, call, sdk, server)
            : serving.tasks.call(serving, call, sdk, server, tool as TaskTool)
        })
      break
    case 'tasks/get':
    case 'tasks/update':
    case 'tasks/cancel':
      if (table.hasTasks) addTaskHandler(server, method, servingOf)
      break
    case 'skills/list':
    case 'skills/get':
    case 'resources/directory/read':
      if (table.skills.size > 0) addSkillHandler(server, method, table, servingOf)
      break
    case 'prompts/list':
      if (capabilities.prompts)
        server.setRequestHandler(method, (_request, sdk) =>
          listResult(listed(servingOf(sdk), sdk, 'prompt', table.prompts), (prompts) => ({ prompts })),
        )
      break
    case 'prompts/get':
      if (capabilities.prompts)
        server.setRequestHandler(method, (get, sdk) => getPrompt(servingOf(sdk), get, sdk))
      break
    case 'completion/complete':
      if (capabilities.completions)
        server.setRequestHandler(method, (request, sdk) => complete(servingOf(sdk), request, sdk))
      break
    default:
      if (capabilities.resources) addResourceHandler(server, method, table, servingOf)
  }
}

/** Accepts all parameters. The handlers check them. */
const ANY_PARAMS: StandardSchemaV1<Record<string, unknown>> = {
  '~standard': {
    version: 1,
    vendor: 'mcp-gatekit',
    validate: (value) => ({ value: value as Record<string, unknown> }),
  },
}

/** Methods of an extension need a schema. With a schema, the SDK serves them in the revision that has removed them. */
function addTaskHandler(
  server: Server,
  method: 'tasks/get' | 'tasks/update' | 'tasks/cancel',
  servingOf: ServingOf,
): void {
  server.setRequestHandler(method, { params: ANY_PARAMS }, async (_params, sdk) => {
    const serving = servingOf(sdk)
    const { tasks } = serving
    if (tasks === undefined) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
    if (method === 'tasks/get') return tasks.get(serving, sdk)
    return method === 'tasks/cancel'
      ? await tasks.cancel(serving, sdk)
      : await tasks.update(serving, sdk, server)
  })
}

function addSkillHandler(
  server: Server,
  method: 'skills/list' | 'skills/get' | 'resources/directory/read',
  table: RouterTable,
  servingOf: ServingOf,
): void {
  server.setRequestHandler(method, { params: ANY_PARAMS }, async (params, sdk) => {
    const serving = servingOf(sdk)
    if (method === 'skills/get') return readSkill(serving, params, sdk)
    if (method === 'resources/directory/read') return readSkillDirectory(serving, params, sdk)
    return listSkills(serving, await listed(serving, sdk, 'resource', table.skills), params, sdk)
  })
}

function addResourceHandler(
  server: Server,
  method: Extract<ServedMethod, `resources/${string}`>,
  table: RouterTable,
  servingOf: ServingOf,
): void {
  switch (method) {
    case 'resources/list':
      server.setRequestHandler(method, async (request, sdk) => {
        const serving = servingOf(sdk)
        return {
          resources: [
            ...(await listed(serving, sdk, 'resource', table.listedResources)),
            ...(await listedByTemplates(serving, request, sdk)),
          ],
        }
      })
      break
    case 'resources/templates/list':
      server.setRequestHandler(method, (_request, sdk) =>
        listResult(
          listed(servingOf(sdk), sdk, 'resource', new Map(table.templates.entries())),
          (resourceTemplates) => ({ resourceTemplates }),
        ),
      )
      break
    case 'resources/read':
      server.setRequestHandler(method, (read, sdk) => readResource(servingOf(sdk), read, sdk))
      break
    case 'resources/subscribe':
      server.setRequestHandler(method, ({ params: { uri } }, sdk) => {
        const canonical = requestedUri(uri)
        if (findResource(table, canonical) === undefined) throw new ResourceNotFoundError(repeatedUri(uri))
        const { subscriptions, exchange } = servingOf(sdk)
        subscriptions.subscribe(ownerOf(exchange.auth), canonical)
        return {}
      })
      break
    case 'resources/unsubscribe':
      server.setRequestHandler(method, ({ params: { uri } }, sdk) => {
        const { subscriptions, exchange } = servingOf(sdk)
        subscriptions.unsubscribe(ownerOf(exchange.auth), requestedUri(uri))
        return {}
      })
  }
}

interface Listable<Definition> extends Scoped {
  readonly definition: Definition
  /** The URI or template in canonical form. */
  readonly canonical?: string
}

/** Returns the definitions in a list. Returns a promise only if there is a policy. */
function listed<Definition extends { readonly name: string }>(
  serving: Serving,
  sdk: ServerContext,
  kind: OperationKind,
  entries: ReadonlyMap<unknown, Listable<Definition>>,
): Definition[] | Promise<Definition[]> {
  const all = [...entries.values()]
  const shown = serving.listOnlyPermitted ? all.filter((entry) => permits(serving, entry)) : all
  if (serving.policy === undefined) return shown.map(({ definition }) => definition)
  return permittedEntries(
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

function listResult<Definition, Result>(
  definitions: Definition[] | Promise<Definition[]>,
  result: (definitions: Definition[]) => Result,
): Result | Promise<Result> {
  return definitions instanceof Promise ? definitions.then(result) : result(definitions)
}

/**
 * Returns `true` if the token has the scopes of an entry. If OAuth is disabled, only entries without scopes are permitted, and
 * for a request that is served without a token only public ones.
 */
function permits({ exchange, table }: Serving, entry: Scoped & { readonly definition: object }): boolean {
  const { gate, auth } = exchange
  if (isAnonymous(exchange)) {
    const { uri } = entry.definition as { readonly uri?: unknown }
    return isOpen(entry) && (typeof uri !== 'string' || isPublicUri(table, uri))
  }
  return gate === undefined || auth === undefined
    ? entry.scopes.length === 0
    : gate.permits(auth.scopes, entry.scopes)
}

/** Returns `true` if the token may read a URI. */
function permitsUri({ exchange, table }: Serving, uri: string): boolean {
  const { gate, auth } = exchange
  if (isAnonymous(exchange)) return isPublicUri(table, uri)
  const scopes = scopesOfUri(table, uri)
  return gate === undefined || auth === undefined ? scopes.length === 0 : gate.permits(auth.scopes, scopes)
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
    const context = new CallContext(serving.exchange, sdk, undefined, serving.sessionCapabilities)
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
