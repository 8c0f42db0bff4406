import {
  type CacheHint,
  type InputRequiredResult,
  isInputRequiredResult,
  type ReadResourceRequest,
  type ReadResourceResult,
  ResourceNotFoundError,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { InputRequired } from '../router/input-required.ts'
import type { ResourceEntry, ResourceTemplateEntry } from '../router/resource.ts'
import { findResource } from '../router/router-table.ts'
import type { Scoped } from '../router/uris/uri-scopes.ts'
import {
  type CallContext,
  permittedCall,
  repeatedUri,
  requestedUri,
  runAround,
  runRound,
  runSafely,
  type Serving,
} from './operation.ts'

/**
 * Serves `resources/read`.
 * @throws {ProtocolError} -32602 if the resource does not exist, -32603 if reading it has failed.
 */
export async function readResource(
  serving: Serving,
  request: ReadResourceRequest,
  sdk: ServerContext,
): Promise<ReadResourceResult | InputRequiredResult> {
  const { uri } = request.params
  const canonical = requestedUri(uri)
  const found = findResource(serving.table, canonical)
  if (found === undefined) throw notFound(uri)
  const { entry, variables } = found
  permittedCall(serving, sdk, 'resource', entry)
  const read = async (context: CallContext): Promise<ReadResourceResult | InputRequired> => {
    const returned = await ('matcher' in entry
      ? entry.handler(new URL(canonical), variables ?? {}, context)
      : entry.handler(new URL(canonical), context))
    if (returned === undefined) throw notFound(uri)
    if (isInputRequiredResult(returned) || isReadResult(returned)) return returned
    const contents = contentsOf(entry, uri, returned)
    const meta = 'app' in entry ? entry.app?.meta : undefined
    return { contents: [meta === undefined ? contents : { ...contents, _meta: meta }] }
  }
  return await runSafely(serving, request, sdk, 'Reading the resource', () =>
    runRound(serving, sdk, canonical, async (context) => {
      const { name } = entry.definition
      const operation = { kind: 'resource', name, uri: canonical, args: variables ?? {} } as const
      const run = () => read(context)
      const result = await runAround(entry, context, operation, run, 'resources/read', isReadResult)
      if (isInputRequiredResult(result)) return result
      // The revisions before 2026-07-28 do not have cache hints.
      return sdk.mcpReq.envelope === undefined
        ? result
        : { ...serving.cache, ...entry.cache, ...result, ...forcedCache(serving, entry) }
    }),
  )
}

function notFound(uri: string): ResourceNotFoundError {
  return new ResourceNotFoundError(repeatedUri(uri))
}

function isReadResult(value: unknown): value is ReadResourceResult {
  const { contents } = (typeof value === 'object' && value !== null ? value : {}) as { contents?: unknown }
  return (
    Array.isArray(contents) &&
    contents.every((one) => typeof (one as { uri?: unknown } | null)?.uri === 'string')
  )
}

function contentsOf(
  { definition: { mimeType } }: ResourceEntry | ResourceTemplateEntry,
  uri: string,
  returned: unknown,
): ReadResourceResult['contents'][number] {
  if (typeof returned === 'string') return { uri, mimeType: mimeType ?? 'text/plain', text: returned }
  if (returned instanceof Uint8Array) {
    const blob = Buffer.from(returned.buffer, returned.byteOffset, returned.byteLength).toString('base64')
    return { uri, mimeType: mimeType ?? 'application/octet-stream', blob }
  }
  const text: string | undefined = JSON.stringify(returned)
  if (text === undefined)
    throw new TypeError(`The resource returned a ${typeof returned}, which cannot be serialized as JSON`)
  return { uri, mimeType: mimeType ?? 'application/json', text }
}

/** Returns a hint that overrides all others: a resource that needs a token must not be in a shared cache. */
export function forcedCache({ exchange, policy }: Serving, { scopes }: Scoped): CacheHint {
  return exchange.auth !== undefined || policy?.filtersLists === true || scopes.length > 0
    ? { cacheScope: 'private' }
    : {}
}
