import { readFileSync } from 'node:fs'
import { CLIENT_NAMES } from '../../src/base/client-names.ts'
import { packageFile } from '../package-file.ts'

/** The page in this package that describes the discovery and the known problems of clients. */
const PAGE = 'docs/guides/clients.md'

export type ClientId = keyof typeof CLIENT_NAMES

/** The clients that `doctor --as` replays, and that have a section on the page. */
export const CLIENT_IDS: readonly ClientId[] = Object.keys(CLIENT_NAMES) as ClientId[]

/** A request to the MCP endpoint without a token. */
export interface EndpointRequest {
  readonly method: 'POST' | 'GET' | 'HEAD'
  /** The message of a POST. */
  readonly message?: 'initialize' | 'server/discover'
  /** `undefined` if the client sends no `User-Agent`. */
  readonly userAgent: string | undefined
  readonly accept: string | undefined
  /** The `MCP-Protocol-Version` of a GET or HEAD. */
  readonly protocolVersion?: string | undefined
}

/**
 * A place where clients look for the resource metadata: the URL of the challenge, the well-known URL with the path of the
 * server, the path of the server followed by the well-known part, or the well-known URL of the host.
 */
export type MetadataPlace = 'challenge' | 'path' | 'appended' | 'root'

/** The forms of the metadata URL of an authorization server. For an issuer without a path, most of them are the same. */
export type IssuerForm =
  | 'oauth-inserted'
  | 'openid-inserted'
  | 'openid-appended'
  | 'oauth-root'
  | 'openid-root'

/** The discovery of one client, as `doctor --as` replays it. */
export type ClientProfile = ReturnType<typeof profileOf>

let page: string | undefined

/** Returns the cells of the row with an ID in backticks at its end, in the table below a heading of the page. */
function cellsOf(heading: string, id: string): readonly string[] {
  page ??= readFileSync(packageFile(PAGE), 'utf8')
  const lines = page.split(`\n## ${heading}\n`)[1]?.split('\n## ', 1)[0]?.split('\n') ?? []
  const row = lines.find((line) => line.startsWith('| ') && line.endsWith(` | \`${id}\` |`)) ?? ''
  return row.slice(2).split(' | ')
}

/** Returns a behavior of some clients that differs from the specifications or from other clients, by its ID. */
export function quirkOf(id: string) {
  const [clients = '', problem = '', remedy = ''] = cellsOf('Known problems', id)
  const source = /\]\((https:[^)]*)\)/.exec(problem)?.[1] ?? ''
  return {
    /** The names of the clients. */
    affected: clients.split(', '),
    /** The URL of a report, of documentation, or of source code. */
    source,
    /** The measure that a server or an authorization server can take. */
    remedy: remedy.replaceAll('`', '').replace(/\.$/, ''),
  }
}

/** Returns the profile of a client. */
export function profileOf(id: ClientId) {
  const [name = '', before = '', after = '', places = '', metadata = '', ...others] = cellsOf('Discovery', id)
  const [resource, forms = '', scopes = '', given = '', basis = ''] = others
  const [{ userAgent = '', accept = '', protocolVersion = '' } = {}] = requestsIn(`GET as ${metadata}`)
  const rules = given.replaceAll('`', '').split(', ')
  const required = rules.find((rule) => rule.startsWith('also at '))?.slice('also at '.length)
  return {
    name,
    /** The requests to the MCP endpoint that begin the discovery. */
    requests: requestsIn(before),
    /** The first request after the sign-in, if it differs from those before. */
    requestAfterSignIn: requestsIn(after)[0],
    /** The headers of requests for metadata. */
    metadataHeaders: {
      'user-agent': userAgent,
      accept,
      ...(protocolVersion !== '' && { 'mcp-protocol-version': protocolVersion }),
    },
    /** The `Accept` header of requests for the metadata of the authorization server, if it differs. */
    issuerAccept: /, then `(.*)`/.exec(metadata)?.[1],
    /** The places of the resource metadata, in order. */
    places: places.split(', ') as MetadataPlace[],
    /** The well-known places of which one must also have the document. */
    requiredPlaces: required?.split(' or ') as MetadataPlace[] | undefined,
    /** `exact` if `resource` must be the URL of the server, `parent` if it can be a parent of it. */
    resource: resource as 'exact' | 'parent',
    /** The forms of the metadata URL of the authorization server, in order. */
    issuerForms: forms.split(', ') as IssuerForm[],
    /** The sources of the requested scopes, in order. */
    scopes: scopes.split(', ') as ('challenge' | 'resource' | 'issuer')[],
    /** Returns `true` for a rule of the client, such as `strict`. The page explains them. */
    has: (rule: string) => rules.includes(rule),
    /** The URL of the source code or documentation that the profile is based on. */
    source: /<(https:[^>]*)>/.exec(basis)?.[1] ?? '',
  }
}

const REQUEST = /(POST|GET|HEAD)(?: `(.*?)`)? as `(.*?)`(?: `(.*?)`)?(?: `(.*?)`)?/g

/** Returns the requests of a cell, such as: POST `initialize` as `node`. */
function requestsIn(cell: string): readonly EndpointRequest[] {
  return [...cell.matchAll(REQUEST)].map(([, method, message, userAgent, accept, protocolVersion]) => ({
    method: method as EndpointRequest['method'],
    message: message as NonNullable<EndpointRequest['message']>,
    userAgent,
    accept: accept ?? ACCEPT,
    protocolVersion,
  }))
}

const ACCEPT = 'application/json, text/event-stream'

/** Returns the handshake of a client. */
export function initializeAs(userAgent: string | undefined): EndpointRequest {
  return { method: 'POST', message: 'initialize', userAgent, accept: ACCEPT }
}
