import { FetchRefusal } from '../base/http/bounded-fetch.ts'
import { abortedWithin, untilAborted } from '../base/http/until-aborted.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import type { KitContext } from '../mcp/router/context.ts'
import { KitMcpRouter } from '../mcp/router/router.ts'
import { type JsonSchema, validate } from '../mcp/router/schemas/json-schema.ts'
import { lazySchema } from '../mcp/router/schemas/lazy-schema.ts'
import type { ToolConfig } from '../mcp/router/tool.ts'
import { KitToolError } from '../mcp/router/tool-error.ts'
import { type Node, type OpenApiDocument, readDocument } from './document.ts'
import { type FoundOperation, operationsOf, scopesOf, toolNameOf } from './operations.ts'
import {
  type OpenApiToolOptions,
  type ResolvedOpenApiToolOptions,
  resolveOpenApiToolOptions,
  selectedBy,
} from './options.ts'
import { isJson, planRequest, type RequestPlan, type RouteRequest, requestFor } from './request-plan.ts'
import { errorResult, type RouteResult, resultOf, statusLine } from './response-result.ts'
import { inProcess, overHttp, type RouteResponse, type RouteTarget } from './route-target.ts'
import { SchemaConverter } from './schemas.ts'

const { invalidOption } = optionChecksOf('toolsFromOpenApi')

/** The maximum number of redirects. */
const MAX_REDIRECTS = 5

/** The maximum length of the problems of a response, in characters. */
const MAX_PROBLEM = 500

type Schema = ReturnType<typeof lazySchema>

/** The options of a tool whose schemas are those of a document. */
type AnyToolConfig = ToolConfig<Schema, Schema | undefined>

/**
 * Creates tools from the routes that an OpenAPI 3.0 or 3.1 document describes. A call becomes a request to the Express app in
 * this process (`app`), or to another server (`baseUrl`).
 *
 * The token and the headers of the MCP request are not passed on. An app in this process finds the verified user at `req.auth`.
 * For another server, set the application's own credentials with `headers`.
 * @param document the document as an object, or as a string of JSON or YAML. URLs in it are not fetched.
 * @param options either `app` or `baseUrl`, and the options of the tools.
 * @returns a router with a tool for each operation. Merge it into another router, or serve it on its own.
 * @throws {KitMcpConfigError} (the promise rejects) if an option or the document is invalid. The message names the place.
 * @example
 * ```ts
 * import express from 'express'
 * import { createMcpAdapter } from 'mcp-gatekit'
 * import { toolsFromOpenApi } from 'mcp-gatekit/openapi'
 *
 * const app = express()
 * app.get('/pets', (_req, res) => void res.json(['Rex']))
 *
 * const document = {
 *   openapi: '3.1.0',
 *   info: { title: 'Pets', version: '1.0.0' },
 *   paths: { '/pets': { get: { operationId: 'listPets', responses: { 200: { description: 'All pets' } } } } },
 * }
 * export const { server } = createMcpAdapter({ router: await toolsFromOpenApi(document, { app }) })
 * ```
 * @see docs/guides/openapi.md
 */
export async function toolsFromOpenApi<App = unknown>(
  document: object | string,
  options: OpenApiToolOptions<App>,
): Promise<KitMcpRouter<App>> {
  const resolved = resolveOpenApiToolOptions(options)
  const read = await readDocument(document)
  const { app, baseUrl, basePath } = resolved
  const target = app === undefined ? overHttp((baseUrl as URL).origin) : await inProcess(app)
  const prefix = (baseUrl?.pathname ?? basePath ?? serverPath(read)).replace(/\/$/, '')
  const schemas = { input: new SchemaConverter(read, 'input'), output: new SchemaConverter(read, 'output') }
  const names = new Set<string>()

  const operations = selectedBy('include', resolved.include, operationsOf(read))
  if (operations.length === 0)
    throw invalidOption('include', 'must select at least one operation of the document')
  const open = new Set(selectedBy('public', resolved.public, operations))
  let router = KitMcpRouter.create<App>()
  for (const operation of operations) {
    const plan = planRequest(read, operation, schemas.input)
    if (typeof plan === 'string') {
      const { node: _node, parameters: _parameters, ...description } = operation
      await resolved.onLeftOut({ ...description, why: plan })
      continue
    }
    const promised = resolved.outputSchemas ? outputOf(read, operation, schemas.output) : undefined
    const output = promised === undefined ? undefined : lazySchema(promised)
    const config: AnyToolConfig = {
      ...describe(operation),
      input: lazySchema(plan.input),
      output: output === undefined ? undefined : withoutValidation(output),
      ...(resolved.scopes !== false && { scopes: scopesOf(read, operation, resolved.scopes) }),
      ...(open.has(operation) && { public: true }),
    }
    const call = routeCall(target, prefix, plan, output, resolved)
    router = router.tool(toolNameOf(operation, names), config, call as never)
  }
  return router
}

/** Returns the path of the first server of the document. */
function serverPath({ root }: OpenApiDocument): string {
  const [server] = (root.servers ?? []) as readonly Node[]
  if (typeof server?.url !== 'string') return ''
  const variables = (server.variables ?? {}) as Readonly<Record<string, Node>>
  const url = server.url.replace(/\{([^{}]*)\}/g, (_whole, name: string) =>
    String(variables[name]?.default ?? ''),
  )
  return URL.canParse(url, 'http://localhost') ? new URL(url, 'http://localhost').pathname : ''
}

function describe(operation: FoundOperation): Pick<AnyToolConfig, 'title' | 'description' | 'annotations'> {
  const { method, path, summary, description, deprecated } = operation
  const said = description ?? summary ?? `${method} ${path}`
  return {
    ...(summary !== undefined && { title: summary }),
    description: deprecated ? `Deprecated. ${said}` : said,
    annotations: {
      readOnlyHint: method === 'GET' || method === 'HEAD',
      ...((method === 'PUT' || method === 'DELETE') && { idempotentHint: true }),
      ...(method === 'DELETE' && { destructiveHint: true }),
    },
  }
}

/** Returns a schema of all 2xx responses. Returns undefined unless all of them are JSON with a schema. */
function outputOf(
  document: OpenApiDocument,
  { node, method }: FoundOperation,
  schemas: SchemaConverter,
): JsonSchema | undefined {
  if (method === 'HEAD') return undefined
  const found: unknown[] = []
  for (const [status, response] of Object.entries((node.responses ?? {}) as Node)) {
    if (!/^2(?:\d\d|XX)$/i.test(status)) continue
    const content = (document.resolve(response)?.content ?? {}) as Node
    const mediaType = Object.keys(content).find(isJson)
    const schema = mediaType === undefined ? undefined : (content[mediaType] as Node).schema
    if (schema === undefined) return undefined
    found.push(schema)
  }
  if (found.length === 0) return undefined
  return schemas.schema(found.length === 1 ? found[0] : { anyOf: found })
}

/** Returns the handler of a tool, which sends the request and converts the response. */
function routeCall(
  target: RouteTarget,
  prefix: string,
  plan: RequestPlan,
  output: Schema | undefined,
  options: ResolvedOpenApiToolOptions,
) {
  const { timeoutMs, maxResponseBytes: maxBytes, headers: ownHeaders } = options
  return async (args: Readonly<Record<string, unknown>>, context: KitContext<any>): Promise<RouteResult> => {
    const planned = requestFor(plan, args)
    const added = ownHeaders === undefined ? {} : await ownHeaders(context)
    const lowered = Object.entries(added).map(([name, value]) => [name.toLowerCase(), value])
    const headers = { ...planned.headers, ...Object.fromEntries(lowered) }
    const request = { ...planned, path: prefix + planned.path, headers }
    const limit = abortedWithin(timeoutMs, context.signal)
    const limits = { signal: limit.signal, maxBytes }
    try {
      const sent = follow(target, request, (next) => target.send(next, context, limits))
      const response = await untilAborted(sent, limits.signal)
      const result = resultOf(response, plan.method, output !== undefined)
      return output === undefined || result.isError
        ? result
        : await validated(result, output, response.status)
    } catch (error) {
      if (limits.signal.aborted && !context.signal.aborted)
        return errorResult(`The route did not respond within ${timeoutMs} ms.`)
      if (error instanceof FetchRefusal)
        throw new KitToolError(`The response is larger than ${maxBytes} bytes. Ask for less at a time`)
      if (KitToolError.is(error)) throw error
      const problem = 'The route is not reachable, or did not complete its response.'
      throw new KitToolError(problem, { cause: error })
    } finally {
      limit.abort()
    }
  }
}

/**
 * Validates a result against the output schema. The error says that the route has responded, so that the model does not call it
 * again.
 * @throws {KitToolError} if the response does not match the schema.
 */
async function validated(result: RouteResult, output: Schema, status: number): Promise<RouteResult> {
  const validation = await validate(output, result.structuredContent)
  if (!('problem' in validation)) return result
  const problem = validation.problem.slice(0, MAX_PROBLEM)
  throw new KitToolError(`${statusLine(status)}: the response does not match its schema: ${problem}`)
}

/** Returns a schema for `tools/list` that accepts every value. `validated` has already checked the response. */
function withoutValidation(output: Schema): Schema {
  return { '~standard': { ...output['~standard'], validate: (value) => ({ value }) } }
}

/** Follows redirects of a GET or HEAD, and a 303 with a GET. Does not leave the origin. */
async function follow(
  { origin }: RouteTarget,
  first: RouteRequest,
  send: (request: RouteRequest) => Promise<RouteResponse>,
): Promise<RouteResponse> {
  let request = first
  for (let hops = 0; ; hops++) {
    const response = await send(request)
    const { status } = response
    const location = response.header('location')
    if (location === undefined || ![301, 302, 303, 307, 308].includes(status)) return response
    const reads = request.method === 'GET' || request.method === 'HEAD'
    if (hops === MAX_REDIRECTS || !(reads || status === 303)) return response
    const here = new URL(request.path, origin)
    const there = URL.canParse(location, here.href) ? new URL(location, here) : undefined
    if (there?.origin !== origin) return response
    const { 'content-type': _type, ...headers } = request.headers
    request = { method: reads ? request.method : 'GET', path: there.pathname + there.search, headers }
  }
}
