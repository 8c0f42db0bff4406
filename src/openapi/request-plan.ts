import { isOptionsObject } from '../base/options/option-checks.ts'
import type { JsonSchema } from '../mcp/router/schemas/json-schema.ts'
import { KitToolError } from '../mcp/router/tool-error.ts'
import type { Node, OpenApiDocument } from './document.ts'
import { type FoundOperation, newName } from './operations.ts'
import {
  type EncodedPair,
  encodeHeader,
  encodePairs,
  encodePath,
  joinPairs,
  type ParameterStyle,
} from './parameter-style.ts'
import type { SchemaConverter } from './schemas.ts'

/** A request to a route. The path begins with a slash and includes the query. */
export interface RouteRequest {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly body?: string
}

/** The parameter that an argument of a tool becomes. */
interface PlannedParameter extends ParameterStyle {
  readonly argument: string
  readonly in: 'path' | 'query' | 'header' | 'cookie'
  /** `true` if the value is sent as JSON, because the parameter has `content`. */
  readonly json: boolean
}

interface PlannedBody {
  readonly argument: string
  readonly mediaType: string
  readonly encoding: Node | undefined
}

/** The rules by which the arguments of a tool become a request. */
export interface RequestPlan {
  readonly method: string
  readonly path: string
  readonly parameters: readonly PlannedParameter[]
  readonly body: PlannedBody | undefined
  readonly input: JsonSchema
  /** The parameters of the query and of cookies, as `place name`. */
  readonly pairNames: ReadonlySet<string>
}

/**
 * The headers that a tool must not set: those that OpenAPI ignores, those that frame a message, and those that identify the
 * sender.
 */
const RESERVED_HEADERS =
  /^(?:accept|content-type|authorization|proxy-.*|cookie2?|host|connection|keep-alive|content-length|content-encoding|transfer-encoding|te|trailer|upgrade|expect|forwarded|x-forwarded-.*|x-real-ip)$/i

/**
 * Plans the requests of an operation.
 * @returns the plan, or the reason why the operation cannot be a tool
 */
export function planRequest(
  document: OpenApiDocument,
  operation: FoundOperation,
  schemas: SchemaConverter,
): RequestPlan | string {
  const { method, path, node } = operation
  if (method === 'TRACE' || method === 'OPTIONS') return `${method} is about the connection, not the data`
  const argumentFor = argumentNames(operation.parameters)
  const members: Record<string, { schema: unknown; description: unknown }> = {}
  const required: string[] = []
  const parameters: PlannedParameter[] = []
  for (const one of operation.parameters) {
    if (one.in === 'header' && RESERVED_HEADERS.test(String(one.name))) continue
    const content = isOptionsObject(one.content) ? Object.entries(one.content as Node)[0] : undefined
    if (content !== undefined && !isJson(content[0])) {
      if (one.required === true) return `the parameter '${one.name}' has content of type ${content[0]}`
      continue
    }
    const { name, in: place } = one as { name: string; in: PlannedParameter['in'] }
    const argument = argumentFor(name, place)
    parameters.push({
      ...styleOf(name, one, place === 'query' || place === 'cookie' ? 'form' : 'simple'),
      argument,
      in: place,
      // OpenAPI allows it only for the query. In other places, reserved characters end the value.
      allowReserved: place === 'query' && one.allowReserved === true,
      json: content !== undefined,
    })
    const schema = content === undefined ? one.schema : (content[1] as Node).schema
    members[argument] = { schema, description: one.description }
    if (one.required === true || place === 'path') required.push(argument)
  }
  const missing = [...path.matchAll(/\{([^{}]*)\}/g)].find(
    ([, name]) => !parameters.some((one) => one.in === 'path' && one.name === name),
  )
  if (missing !== undefined) return `the path parameter '${missing[1]}' is not described`

  const requestBody = method === 'GET' || method === 'HEAD' ? undefined : document.resolve(node.requestBody)
  let body: PlannedBody | undefined
  if (requestBody !== undefined) {
    const content = (requestBody.content ?? {}) as Node
    const types = Object.keys(content)
    const mediaType = types.find(isJson) ?? types.find(isForm)
    if (mediaType === undefined) return `its body is of type ${types.join(', ') || 'unknown'}`
    const { schema, encoding } = content[mediaType] as Node
    const argument = argumentFor('body', 'body')
    const type = isForm(mediaType) ? FORM : mediaType
    body = { argument, mediaType: type, encoding: encoding as Node | undefined }
    members[argument] = { schema, description: requestBody.description }
    if (requestBody.required === true) required.push(argument)
  }
  const pairNames = new Set(parameters.map((one) => `${one.in} ${one.name}`))
  return { method, path, parameters, body, input: schemas.object(members, required), pairNames }
}

function styleOf(name: string, given: Node, usual: string): ParameterStyle {
  const style = typeof given.style === 'string' ? given.style : usual
  const explode = typeof given.explode === 'boolean' ? given.explode : style === 'form'
  return { name, style, explode, allowReserved: given.allowReserved === true }
}

const FORM = 'application/x-www-form-urlencoded'

/** Returns `true` if a media type is JSON. A range such as `application/*` is not. */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(mediaType)
}

function isForm(mediaType: string): boolean {
  return mediaType.split(';', 1)[0]?.trim().toLowerCase() === FORM
}

/**
 * Returns a function that makes argument names which the interfaces of models accept: up to 64 characters of
 * `A-Z a-z 0-9 _ . -`, each name once.
 */
function argumentNames(parameters: readonly Node[]): (name: string, place: string) => string {
  const taken = new Set<string>()
  return (name, place) => {
    const isShared = parameters.filter((one) => one.name === name).length > 1
    const full = isShared && place !== 'path' ? `${place}_${name}` : name
    const wanted = full.replace(/[^\w.-]+/g, '_').slice(0, 60) || 'value'
    return newName(place === 'body' && taken.has(wanted) ? 'requestBody' : wanted, taken)
  }
}

/**
 * Returns the request for these arguments.
 * @throws {KitToolError} if an argument would change the route, or cannot be sent.
 */
export function requestFor(plan: RequestPlan, args: Readonly<Record<string, unknown>>): RouteRequest {
  const inPath = new Map<string, string>()
  const pairs = { query: [] as EncodedPair[], cookie: [] as EncodedPair[] }
  const headers: Record<string, string> = { accept: 'application/json, text/plain;q=0.9, */*;q=0.8' }
  for (const parameter of plan.parameters) {
    const given = argumentOf(args, parameter.argument)
    if (given === undefined) continue
    const value = parameter.json ? JSON.stringify(given) : given
    if (parameter.in === 'path') inPath.set(parameter.name, encodePath(parameter, value))
    else if (parameter.in === 'header') headers[parameter.name.toLowerCase()] = encodeHeader(parameter, value)
    else pairs[parameter.in].push(...pairsOf(plan, parameter, value))
  }
  if (pairs.cookie.length > 0) headers.cookie = joinPairs(pairs.cookie, '; ')
  const path = fillPath(plan.path, inPath)
  const search = pairs.query.length === 0 ? '' : `?${joinPairs(pairs.query)}`
  const request = { method: plan.method, path: path + search, headers }
  const { argument, mediaType, encoding } = plan.body ?? {}
  const value = argument === undefined ? undefined : argumentOf(args, argument)
  if (mediaType === undefined || value === undefined) return request
  headers['content-type'] = mediaType
  return { ...request, body: mediaType === FORM ? formOf(value, encoding) : JSON.stringify(value) }
}

/**
 * Serializes an argument for the query or a cookie. The members of an object may become separate parameters.
 * @throws {KitToolError} if a member has the name of another parameter.
 */
function pairsOf(plan: RequestPlan, parameter: PlannedParameter, value: unknown): EncodedPair[] {
  const { style, explode, name, argument } = parameter
  if (style === 'form' && explode && isOptionsObject(value)) {
    const other = Object.keys(value).find(
      (member) => member !== name && plan.pairNames.has(`${parameter.in} ${member}`),
    )
    if (other !== undefined)
      throw new KitToolError(`'${argument}' must not have a member '${other}': it is an argument of its own`)
  }
  return encodePairs(parameter, value)
}

function argumentOf(args: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(args, name) ? args[name] : undefined
}

/** An empty or dotted segment would be another path: `/users/` lists what `/users/{id}` shows. */
function fillPath(template: string, values: ReadonlyMap<string, string>): string {
  const segments = template.split('/').map((segment) => {
    if (!segment.includes('{')) return segment
    const filled = segment.replace(/\{([^{}]*)\}/g, (_whole, name: string) => values.get(name) ?? '')
    if (filled === '' || filled === '.' || filled === '..') {
      throw new KitToolError(`The path parameters of ${template} must not be empty, '.' or '..'`)
    }
    return filled
  })
  return segments.join('/')
}

/** Serializes the fields of a form. Objects become JSON unless `encoding` sets a style. */
function formOf(value: unknown, encoding: Node | undefined): string {
  if (!isOptionsObject(value)) throw new KitToolError('The body must be an object: it is sent as a form')
  const pairs = Object.entries(value).flatMap(([name, field]): EncodedPair[] => {
    if (field === undefined) return []
    const given = (encoding?.[name] ?? {}) as Node
    const isStyled = given.style !== undefined || given.explode !== undefined
    const written = !isStyled && isOptionsObject(field) ? JSON.stringify(field) : field
    return encodePairs(styleOf(name, given, 'form'), written)
  })
  return joinPairs(pairs)
}
