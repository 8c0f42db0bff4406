import type { CacheHint, ServerContext } from '@modelcontextprotocol/server'
import type { TableDirectory, TableSkill } from '../router/skills.ts'
import type { Scoped } from '../router/uris/uri-scopes.ts'
import { invalidParams, permittedCall, repeatedUri, requestedUri, type Serving } from './operation.ts'
import { forcedCache } from './resource-read.ts'

/** The parameters of a request, which are not checked. */
type Params = Readonly<Record<string, unknown>>

type Result = Record<string, unknown>

/** The number of skills, or of entries of a directory, in one response. */
const PAGE_SIZE = 100

/**
 * Serves `skills/list`.
 * @param shown the skills that the token may list, in the order of their URIs
 * @throws {ProtocolError} -32602 if the cursor is invalid.
 */
export function listSkills(
  serving: Serving,
  shown: readonly { readonly uri: string }[],
  params: Params,
  sdk: ServerContext,
): Result {
  const { items, next } = pageOf(shown, params)
  const { cache, listOnlyPermitted, policy } = serving
  const own: CacheHint = listOnlyPermitted || policy?.filtersLists === true ? { cacheScope: 'private' } : {}
  return {
    skills: items.map(({ uri }) => (serving.table.skills.get(uri) as TableSkill).skill),
    ...next,
    ...cacheFields(sdk, { ...cache, ...own }),
  }
}

/** Serves `skills/get`. @throws {ProtocolError} -32602 if the skill does not exist. */
export function readSkill(serving: Serving, params: Params, sdk: ServerContext): Result {
  const { skills } = serving.table
  const entry = partAt(skills, serving, params, sdk, (uri) => `No skill is served at ${uri}`)
  return { skill: entry.skill, ...cacheFields(sdk, cacheOf(serving, entry)) }
}

/** Serves `resources/directory/read`. @throws {ProtocolError} -32602 if the directory does not exist. */
export function readSkillDirectory(serving: Serving, params: Params, sdk: ServerContext): Result {
  const { directories } = serving.table
  const entry = partAt(directories, serving, params, sdk, (uri) => `${uri} is not a directory resource`)
  const { items, next } = pageOf(entry.children, params)
  return { resources: items, ...next, ...cacheFields(sdk, cacheOf(serving, entry)) }
}

/** Returns the skill or the directory that a request names, if the policy permits it. */
function partAt<Part extends object>(
  parts: ReadonlyMap<string, Part>,
  serving: Serving,
  { uri }: Params,
  sdk: ServerContext,
  missing: (uri: string) => string,
): Part {
  if (typeof uri !== 'string') throw invalidParams('Invalid params: uri must be a string')
  const part = parts.get(requestedUri(uri))
  if (part === undefined) throw invalidParams(missing(repeatedUri(uri)))
  permittedCall(serving, sdk, 'resource', part)
  return part
}

function cacheOf(serving: Serving, entry: Scoped & Pick<TableSkill | TableDirectory, 'cache'>): CacheHint {
  return { ...serving.cache, ...entry.cache, ...forcedCache(serving, entry) }
}

/** Returns the members of a result that tell clients how to cache it. The revisions before 2026-07-28 do not have them. */
function cacheFields({ mcpReq }: ServerContext, { ttlMs = 0, cacheScope = 'private' }: CacheHint): CacheHint {
  return mcpReq.envelope === undefined ? {} : { ttlMs, cacheScope }
}

const CURSOR_PREFIX = 'after:'

/**
 * Returns one page of a list that is sorted by URI. A cursor contains the URI of the last item of the page before, as the cursors
 * of the SDK do, so that it stays valid if the permissions change in between.
 */
function pageOf<Item extends { readonly uri: string }>(
  all: readonly Item[],
  { cursor }: Params,
): { readonly items: readonly Item[]; readonly next: { readonly nextCursor?: string } } {
  const after = cursor === undefined ? '' : uriAfter(cursor)
  const first = all.findIndex(({ uri }) => uri > after)
  const start = first === -1 ? all.length : first
  const items = all.slice(start, start + PAGE_SIZE)
  const last = items.at(-1)
  const isComplete = last === undefined || start + PAGE_SIZE >= all.length
  if (isComplete) return { items, next: {} }
  return { items, next: { nextCursor: Buffer.from(CURSOR_PREFIX + last.uri).toString('base64url') } }
}

function uriAfter(cursor: unknown): string {
  if (typeof cursor === 'string') {
    const decoded = Buffer.from(cursor, 'base64url').toString()
    if (decoded.startsWith(CURSOR_PREFIX)) return decoded.slice(CURSOR_PREFIX.length)
  }
  throw invalidParams('Invalid cursor')
}
