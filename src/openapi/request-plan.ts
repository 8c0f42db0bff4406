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
  const argumentFor = argumentNames(operation.parameters)
  const members: Record<string, { schema: unknown; description?: string }> = {}
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
    const usual = place === 'query' || place === 'cookie' ? 'form' : 'simple'
    const style = typeof one.style === 'string' ? one.style : usual
    const argument = argumentFor(name, place)
    parameters.push({
      argument,
      name,
      in: place,
      style,
      explode: typeof one.explode === 'boolean' ? one.explode : style === 'form',
      // OpenAPI allows it only for the query. In other places, reserved characters end the value.
      allowReserved: place === 'query' && one.allowReserved === true,
      json: content !== undefined,
    })
    const schema = content === undefined ? one.schema : (content[1] as Node).schema
    members[argument] = { schema, ...describedBy(one) }
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
    const mediaType = Object.keys(content).find(isJson) ?? Object.keys(content).find((type) => isForm(type))
    if (mediaType === undefined) return `its body is of type ${Object.keys(content).join(', ') || 'unknown'}`
    const { schema, encoding } = content[mediaType] as Node
    const argument = argumentFor('body', 'body')
    const type = isForm(mediaType) ? FORM : mediaType
    body = { argument, mediaType: type, encoding: encoding as Node | undefined }
    members[argument] = { schema, ...describedBy(requestBody) }
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

function describedBy({ description }: Node): { description?: string } {
  return typeof description === 'string' && description !== '' ? { description } : {}
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
  const query: EncodedPair[] = []
  const cookies: EncodedPair[] = []
  const headers: Record<string, string> = { accept: 'application/json, text/plain;q=0.9, */*;q=0.8' }
  for (const parameter of plan.parameters) {
    const given = argumentOf(args, parameter.argument)
    if (given === undefined) continue
    const value = parameter.json ? JSON.stringify(given) : given
    if (parameter.in === 'path') inPath.set(parameter.name, encodePath(parameter, value))
    else if (parameter.in === 'query') query.push(...pairsOf(plan, parameter, value))
    else if (parameter.in === 'cookie') cookies.push(...pairsOf(plan, parameter, value))
    else headers[parameter.name.toLowerCase()] = encodeHeader(parameter, value)
  }
  if (cookies.length > 0) headers.cookie = cookies.map(([name, value]) => `${name}=${value}`).join('; ')
  const path = fillPath(plan.path, inPath)
  return {
    method: plan.method,
    path: query.length === 0 ? path : `${path}?${joinPairs(query)}`,
    headers,
    ...bodyFor(plan.body, args, headers),
  }
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

function bodyFor(
  body: PlannedBody | undefined,
  args: Readonly<Record<string, unknown>>,
  headers: Record<string, string>,
): { body?: string } {
  const value = body === undefined ? undefined : argumentOf(args, body.argument)
  if (body === undefined || value === undefined) return {}
  headers['content-type'] = body.mediaType
  return { body: body.mediaType === FORM ? formOf(value, body.encoding) : JSON.stringify(value) }
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
