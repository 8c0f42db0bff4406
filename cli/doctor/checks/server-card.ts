import { isRecord } from '../../../src/base/options/value-kinds.ts'
import { type FoundDocument, fetchDocument } from '../documents.ts'
import { type CheckFunctions, type Examination, observation } from '../examination.ts'
import { fail, InconclusiveError, ok, onlyIf, warn, worst } from '../finding.ts'
import { initialize, LEGACY_REVISIONS, MODERN_REVISION, modernMessage, NEWEST_LEGACY } from '../messages.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { entriesOf, type JsonObject, memberOf, textsOf, urlOf, withoutSlash } from '../values.ts'
import { readable } from './cors.ts'
import { goodToken, revisions } from './protocol.ts'

const CARD_TYPE = 'application/mcp-server-card+json'
const CATALOG_TYPE = 'application/ai-catalog+json'
const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'

/** The maximum number of cards of a catalog that are fetched. */
const MAX_CARDS = 8

/** Fetches a document of a media type. */
const documentAt = (examination: Examination, url: URL, type: string): Promise<FoundDocument> =>
  fetchDocument(examination, url, `${type}, application/json`)

/** The catalog of the host, if it has one. */
const catalog = observation((examination) =>
  documentAt(examination, new URL('/.well-known/ai-catalog.json', examination.url.origin), CATALOG_TYPE),
)

/** Returns the URLs of the cards that a catalog names, without those that are not safe to fetch. */
function cardUrls(examination: Examination, { document }: FoundDocument): readonly URL[] {
  return entriesOf(document, 'entries')
    .filter((entry) => memberOf(entry, 'type') === CARD_TYPE)
    .flatMap((entry) => examination.safeUrl(memberOf(entry, 'url')) ?? [])
}

/** The card at its usual URL, or else the one in the catalog that names the server. */
const serverCard = observation(async (examination) => {
  const { origin, pathname } = examination.url
  const usualUrl = new URL(`${origin}${withoutSlash(pathname)}/server-card`)
  const { document: card, response } = await documentAt(examination, usualUrl, CARD_TYPE)
  if (card !== undefined) return { url: usualUrl, card, response }
  for (const url of cardUrls(examination, await catalog(examination)).slice(0, MAX_CARDS)) {
    const { document: card, response } = await documentAt(examination, url, CARD_TYPE)
    if (card !== undefined && remoteOf(card, examination.url) !== undefined) return { url, card, response }
  }
  throw new InconclusiveError('the server does not have a card, which is optional')
})

/** Returns the remote of a card with this URL. */
function remoteOf(card: JsonObject, url: URL): JsonObject | undefined {
  return remotesIn(card).find((remote) => {
    const named = urlOf(remote.url)
    return named !== undefined && withoutSlash(named.href) === withoutSlash(url.href)
  })
}

const remotesIn = (card: JsonObject): readonly JsonObject[] => entriesOf(card, 'remotes').filter(isRecord)

/** Returns the problems of a card by the schema of SEP-2127. */
export function cardProblems(card: JsonObject): readonly string[] {
  const problems: string[] = []
  const check = (isRight: boolean, problem: string): void => void (isRight || problems.push(problem))
  const { name, version, description, title, websiteUrl, icons, repository, remotes } = card
  check(card.$schema === SCHEMA, `$schema is ${quoteValue(card.$schema)} instead of ${SCHEMA}`)
  const isName =
    typeof name === 'string' && name.length <= 200 && /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/.test(name)
  check(isName, `name is ${quoteValue(name)}, which is not of the form com.example/notes`)
  check(typeof version === 'string' && version.length <= 255, `version is ${quoteValue(version)}`)
  check(isText(description, 100), 'description is not a string of 1 to 100 characters')
  check(title === undefined || isText(title, 100), 'title is not a string of 1 to 100 characters')
  check(websiteUrl === undefined || urlOf(websiteUrl) !== undefined, 'websiteUrl is not a URL')
  check(
    isListOf(icons, (icon) => urlOf(icon.src) !== undefined),
    'icons is not a list of objects with a URL as src',
  )
  const isRepository =
    isRecord(repository) && typeof repository.source === 'string' && urlOf(repository.url) !== undefined
  check(repository === undefined || isRepository, 'repository is not an object with url and source')
  check(
    isListOf(remotes, isRemote),
    'remotes is not a list of objects with a type, a URL, and a list of protocol versions',
  )
  return problems
}

/** Characters are code points, as JSON Schema counts them. */
function isText(value: unknown, max: number): boolean {
  return typeof value === 'string' && value !== '' && [...value.slice(0, 2 * max + 1)].length <= max
}

function isListOf(value: unknown, isRight: (item: JsonObject) => boolean): boolean {
  if (value === undefined) return true
  return Array.isArray(value) && value.every((item) => isRecord(item) && isRight(item))
}

function isRemote(remote: JsonObject): boolean {
  const { type, url, supportedProtocolVersions: versions } = remote
  return (
    (type === 'streamable-http' || type === 'sse') &&
    typeof url === 'string' &&
    /^(?:https?:\/\/|\{[a-z_]\w*\})/i.test(url) &&
    !/\s/.test(url) &&
    (versions === undefined || textsOf(remote, 'supportedProtocolVersions') !== undefined)
  )
}

const HINT = 'mcp-gatekit: mcpServer serves a card that is made of serverInfo and the router'

/** A card has a name in reverse-DNS form. The server may have only the part behind the slash, with other characters. */
function isSameName(name: unknown, own: unknown): boolean {
  if (typeof name !== 'string' || typeof own !== 'string') return false
  const last = name.slice(name.indexOf('/') + 1)
  const plain = (text: string): string => text.replace(/[^a-zA-Z0-9._-]/gu, '-')
  const isCut = name.length === 200 && plain(own).startsWith(last)
  return name === own || plain(own) === last || isCut || own.slice(own.lastIndexOf('/') + 1) === last
}

export const SERVER_CARD: CheckFunctions = {
  async 'card.valid'(examination) {
    const { url, response, card } = await serverCard(examination)
    const problems = cardProblems(card)
    if (problems.length > 0)
      return fail(`${quote(url.href)}: ${problems.join('; ')}`, `follow the schema of SEP-2127; ${HINT}`)
    if (response?.mediaType === CARD_TYPE) return ok(quote(url.href))
    return warn(`Content-Type is ${quote(response?.mediaType || 'missing')}`, `send the card as ${CARD_TYPE}`)
  },
  async 'card.remote'(examination) {
    const { card } = await serverCard(examination)
    const urls = remotesIn(card).map(({ url }) => url)
    if (urls.length === 0) return ok('the card names no URL')
    if (remoteOf(card, examination.url) !== undefined) return ok(quote(examination.url.href))
    // A template cannot be compared.
    if (urls.some((url) => String(url).includes('{'))) return ok(quoteAll(urls))
    return fail(
      `the card leads to ${quoteAll(urls)} instead of ${quote(examination.url.href)}`,
      'set the URL of a remote to the URL that clients use (mcp-gatekit: option resource, or trust proxy behind a proxy)',
    )
  },
  async 'card.discover'(examination) {
    const { card } = await serverCard(examination)
    const token = await goodToken(examination)
    const { served } = await revisions(examination)
    const isModern = served.includes(MODERN_REVISION)
    const source = isModern ? 'server/discover' : 'initialize'
    const message = isModern ? modernMessage('server/discover') : initialize(NEWEST_LEGACY)
    const response = await examination.post(message, { token })
    const info = response.result('_meta', SERVER_INFO) ?? response.result('serverInfo')
    if (!isRecord(info)) throw new InconclusiveError('the server does not state its name and version')
    const { name, version, title } = card
    const isCut =
      typeof info.title === 'string' && String(title).length >= 99 && info.title.startsWith(String(title))
    const differs = {
      name: !isSameName(name, info.name),
      version: version !== info.version,
      title: title !== undefined && info.title !== undefined && title !== info.title && !isCut,
    }
    const stated = textsOf(remoteOf(card, examination.url), 'supportedProtocolVersions')
    const known = [...LEGACY_REVISIONS, MODERN_REVISION]
    const refused = stated?.filter((one) => known.includes(one) && !served.includes(one)) ?? []
    const named = textsOf(response.message?.result as JsonObject, 'supportedVersions') ?? []
    const missing = named.filter((one) => stated?.includes(one) === false)
    const findings = Object.entries(differs).map(([member, isOther]) => {
      const seen = `${member} is ${quoteValue(card[member])} in the card, and ${quoteValue(info[member])} in ${source}`
      return isOther && warn(seen, `make both equal; ${HINT}`)
    })
    const unknown = `the card names ${quoteAll(refused)}, which the server does not support`
    const unnamed = `the card does not name ${quoteAll(missing)}, which ${source} names`
    return worst([
      ok(`${quoteValue(name)} ${quoteValue(version)}, as ${source} says`),
      ...findings,
      refused.length > 0 && fail(unknown, `remove it from supportedProtocolVersions; ${HINT}`),
      missing.length > 0 && warn(unnamed, `add it to supportedProtocolVersions; ${HINT}`),
    ])
  },
  async 'card.catalog'(examination) {
    const { url } = await serverCard(examination)
    const listed = await catalog(examination)
    const hint = `list the card with its URL, a unique identifier, and the type ${CARD_TYPE} (mcp-gatekit: mcpServer, or aiCatalog for several servers)`
    const { document, response } = listed
    onlyIf(document !== undefined, 'the host does not have a catalog, which is optional')
    if (typeof document.specVersion !== 'string' || !Array.isArray(document.entries))
      return fail('the catalog has no specVersion, or no list of entries', hint)
    const identifiers = document.entries.map((entry) => memberOf(entry, 'identifier'))
    const known = new Set<unknown>()
    const wrong = identifiers.filter((one) => typeof one !== 'string' || known.size === known.add(one).size)
    if (wrong.length > 0) return fail(`identifiers are missing or occur twice: ${quoteAll(wrong)}`, hint)
    if (!cardUrls(examination, listed).some(({ href }) => href === url.href))
      return warn(`the catalog does not name ${quote(url.href)}`, hint)
    if (response?.mediaType === CATALOG_TYPE) return ok(`${document.entries.length} entries`)
    return warn(
      `Content-Type is ${quote(response?.mediaType || 'missing')}`,
      `send the catalog as ${CATALOG_TYPE}`,
    )
  },
  async 'card.cors'(examination) {
    const { response } = await serverCard(examination)
    if (readable(response, examination)) return ok('Access-Control-Allow-Origin')
    return warn(
      'web pages cannot read the card',
      'send Access-Control-Allow-Origin: * with it, because a card is public',
    )
  },
}
