import { grantedScopes } from '../../src/oauth/scope.ts'
import {
  authorizationServers,
  discoveryUrls,
  formUrl,
  isAcceptedIssuer,
  isSameIssuer,
  type KnownServer,
  knownServers,
} from './authorization-servers.ts'
import type { CheckFunction, CheckFunctions } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn, worst } from './finding.ts'
import { type JsonObject, textsOf, urlOf } from './json-object.ts'
import { fetchDocument } from './metadata-documents.ts'
import { challengedScope } from './protection.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'
import { noResponse } from './reachability.ts'
import { resourceMetadata } from './resource-metadata.ts'

/** Scopes that do not belong to a resource (OpenID Connect Core §5.4, §11). */
const COMMON_SCOPES = ['openid', 'profile', 'email', 'address', 'phone', 'offline_access']

/** Returns `true` if an authorization server accepts URLs of client ID metadata documents as client IDs. */
export function acceptsMetadataDocuments(metadata: JsonObject): boolean {
  return metadata.client_id_metadata_document_supported === true
}

/** Returns `true` if clients without a secret can use the token endpoint. The default is `client_secret_basic` (RFC 8414 §2). */
export function acceptsPublicClients(metadata: JsonObject): boolean {
  return textsOf(metadata, 'token_endpoint_auth_methods_supported')?.includes('none') === true
}

/** Returns the scopes of the challenge and of the resource metadata. */
export async function scopesOfResource(examination: Examination): Promise<readonly string[]> {
  const { document } = await resourceMetadata(examination)
  const challenged = grantedScopes(await challengedScope(examination))
  const supported = textsOf(document, 'scopes_supported') ?? []
  return [...new Set([...challenged, ...supported])].filter((scope) => scope !== '')
}

/** Returns a check of each authorization server whose metadata was found. */
export function ofEach(
  check: (
    server: KnownServer,
    examination: Examination,
  ) => Finding | readonly Finding[] | Promise<Finding | readonly Finding[]>,
): CheckFunction {
  return async (examination) => {
    const findings: Finding[] = []
    for (const server of await knownServers(examination))
      findings.push(...[await check(server, examination)].flat())
    return worst(findings)
  }
}

export const ISSUERS: CheckFunctions = {
  async 'issuer.metadata'(examination) {
    const servers = await authorizationServers(examination)
    return worst(
      servers.map(({ issuer, document, url, failure }) => {
        if (document !== undefined) return ok(quote(url.href))
        if (failure === undefined)
          return fail(
            `${quote(issuer)} has no metadata`,
            `serve it at ${quote(formUrl(issuer, 'oauth-inserted').href)} (RFC 8414) or as an OpenID configuration, or correct the URL of the issuer in the resource metadata`,
          )
        const { seen, hint } = noResponse(failure)
        return fail(`${quote(issuer)}: ${seen}`, `at the authorization server: ${hint}`)
      }),
    )
  },
  'issuer.identity': ofEach(({ issuer, document: { issuer: said } }) => {
    if (said === issuer) return ok(quote(issuer))
    const [report, slash] = isAcceptedIssuer(said, issuer) ? [warn, 'less'] : [fail, 'more']
    return report(
      `the resource names ${quote(issuer)}, the authorization server ${quoteValue(said)}${isSameIssuer(said, issuer) ? `: one slash ${slash}` : ''}`,
      'make both identical (RFC 8414 §3.3): the official clients accept only one slash less, and stop otherwise',
    )
  }),
  'issuer.endpoints': ofEach(({ issuer, document }, examination) => {
    const hint = 'enable the authorization code flow at the authorization server, with https endpoints'
    for (const name of ['authorization_endpoint', 'token_endpoint']) {
      const value = document[name]
      if (urlOf(value) === undefined) return fail(`${quote(issuer)} has no ${name}`, hint)
      if (examination.safeUrl(value) === undefined)
        return fail(`${name} is ${quoteValue(value)}, which is not https`, hint)
    }
    if (document.response_types_supported === undefined) return ok('both endpoints')
    const types = textsOf(document, 'response_types_supported') ?? []
    return types.includes('code')
      ? ok('both endpoints, and the response type code')
      : fail(`response_types_supported is ${quoteAll(types) || 'not an array of strings, or empty'}`, hint)
  }),
  'issuer.pkce': ofEach(({ issuer, document }) => {
    const hint =
      'enable PKCE with S256 and list it in code_challenge_methods_supported: MCP clients must stop without it'
    if (document.code_challenge_methods_supported === undefined)
      return fail(`${quote(issuer)} has no code_challenge_methods_supported`, hint)
    const methods = textsOf(document, 'code_challenge_methods_supported') ?? []
    return methods.includes('S256')
      ? ok(quoteAll(methods))
      : fail(`code_challenge_methods_supported is ${quoteAll(methods) || 'empty or not an array'}`, hint)
  }),
  'issuer.registration': ofEach(({ document }) => {
    const ways = [
      ...(acceptsMetadataDocuments(document) ? ['client ID metadata documents'] : []),
      ...(typeof document.registration_endpoint === 'string' ? ['dynamic registration (RFC 7591)'] : []),
    ]
    if (ways.length > 0) return ok(ways.join(' and '))
    return warn(
      'neither client ID metadata documents nor dynamic registration',
      'enable one of them, preferably client ID metadata documents; otherwise register every client manually and configure its client_id',
    )
  }),
  'issuer.path-forms': ofEach(async ({ issuer }, examination) => {
    if (new URL(issuer).pathname === '/') return ok('the issuer has no path')
    const found: URL[] = []
    for (const url of discoveryUrls(issuer))
      if ((await fetchDocument(examination, url)).document !== undefined) found.push(url)
    const seen = found.map(({ pathname }) => quote(pathname)).join(', ')
    const inserted = formUrl(issuer, 'oauth-inserted').href
    if (found.some(({ href }) => href === inserted || href === formUrl(issuer, 'openid-inserted').href))
      return ok(seen)
    const hint = `also serve the metadata at ${quote(inserted)} (RFC 8414 §3.1)`
    return clientProblem(examination, 'issuer-path', `only ${seen}`, hint)
  }),
  'issuer.cimd': ofEach(({ issuer, document }, examination) => {
    if (!acceptsMetadataDocuments(document)) return ok('not supported: clients register otherwise')
    if (acceptsPublicClients(document))
      return ok('client_id_metadata_document_supported, and the method none')
    const methods = textsOf(document, 'token_endpoint_auth_methods_supported')
    return clientProblem(
      examination,
      'cimd-needs-none',
      `${quote(issuer)} supports them, but token_endpoint_auth_methods_supported is ${methods === undefined ? 'missing' : quoteAll(methods) || 'empty'}`,
      'add none to token_endpoint_auth_methods_supported: clients with a metadata document have no secret',
    )
  }),
  'issuer.scopes': ofEach(async ({ document }, examination) => {
    const wanted = await scopesOfResource(examination)
    const listed = textsOf(document, 'scopes_supported') ?? []
    if (listed.length === 0) return ok('the authorization server lists no scopes')
    const known = new Set(listed)
    const missing = wanted.filter((scope) => !known.has(scope))
    if (missing.length > 0)
      return clientProblem(
        examination,
        'issuer-scopes',
        `scopes_supported of the authorization server does not contain ${quoteAll(missing)}`,
        'add them: clients that request only the scopes of this list get a token without them',
      )
    const ours = new Set([...wanted, ...COMMON_SCOPES])
    const unrelated = [...known].filter((scope) => !ours.has(scope))
    if (unrelated.length === 0 || wanted.length === 0) return ok(`${listed.length} scopes`)
    return warn(
      `scopes_supported of the authorization server contains ${unrelated.length} other scopes: ${quoteAll(unrelated)}`,
      'shorten the list, or configure the scopes in Gemini CLI and in older versions of Codex: they request all of them (https://github.com/openai/codex/issues/15643)',
    )
  }),
}
