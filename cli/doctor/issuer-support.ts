import type { IssuerForm } from '../clients/profiles.ts'
import { type AuthorizationServerSeen, authorizationServers } from './authorization-servers.ts'
import type { Check } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, ok, warn, worst } from './finding.ts'
import { fetchDocument, textsOf } from './metadata-documents.ts'
import { bearerChallenge } from './protection.ts'
import { quote, quoteAll } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'

type Metadata = Readonly<Record<string, unknown>>

/** Scopes that do not belong to a resource (OpenID Connect Core §5.4, §11). */
const COMMON_SCOPES = ['openid', 'profile', 'email', 'address', 'phone', 'offline_access']

/** Returns the URL of one form of the metadata of an issuer. */
export function formUrl(issuer: string, form: IssuerForm): URL {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places: Readonly<Record<IssuerForm, string>> = {
    'oauth-inserted': `/.well-known/oauth-authorization-server${path}`,
    'openid-inserted': `/.well-known/openid-configuration${path}`,
    'openid-appended': `${path}/.well-known/openid-configuration`,
    'oauth-root': '/.well-known/oauth-authorization-server',
    'openid-root': '/.well-known/openid-configuration',
  }
  return new URL(places[form], origin)
}

/** Returns `true` if an authorization server accepts URLs of client ID metadata documents as client IDs. */
export function acceptsMetadataDocuments(metadata: Metadata): boolean {
  return metadata.client_id_metadata_document_supported === true
}

/** Returns `true` if clients without a secret can use the token endpoint. The default is `client_secret_basic` (RFC 8414 §2). */
export function acceptsPublicClients(metadata: Metadata): boolean {
  return textsOf(metadata, 'token_endpoint_auth_methods_supported')?.includes('none') === true
}

/** Returns the authorization servers whose metadata was found. */
async function known(examination: Examination): Promise<readonly (AuthorizationServerSeen & Known)[]> {
  const servers = await authorizationServers(examination)
  return servers.filter((server): server is AuthorizationServerSeen & Known => server.found !== undefined)
}

interface Known {
  readonly found: NonNullable<AuthorizationServerSeen['found']>
}

export const ISSUER_SUPPORT: readonly Check[] = [
  {
    id: 'issuer.path-forms',
    title: 'Every client finds the metadata of an issuer with a path',
    needs: ['issuer.metadata'],
    async run(examination) {
      const findings: Finding[] = []
      for (const { issuer } of await known(examination)) findings.push(await checkForms(examination, issuer))
      return worst(findings)
    },
  },
  {
    id: 'issuer.cimd',
    title: 'Client ID metadata documents work',
    needs: ['issuer.metadata'],
    async run(examination) {
      const servers = await known(examination)
      return worst(
        servers.map(({ issuer, found: { document } }) => {
          if (!acceptsMetadataDocuments(document)) return ok('not supported: clients register otherwise')
          const methods = textsOf(document, 'token_endpoint_auth_methods_supported')
          return acceptsPublicClients(document)
            ? ok('client_id_metadata_document_supported, and the method none')
            : clientProblem(
                examination,
                'cimd-needs-none',
                `${quote(issuer)} supports them, but token_endpoint_auth_methods_supported is ${methods === undefined ? 'missing' : quoteAll(methods) || 'empty'}`,
                'add none to token_endpoint_auth_methods_supported: clients with a metadata document have no secret',
              )
        }),
      )
    },
  },
  {
    id: 'issuer.scopes',
    title: 'The authorization server lists the scopes of the resource',
    needs: ['issuer.metadata'],
    async run(examination) {
      const wanted = await scopesOfResource(examination)
      const servers = await known(examination)
      return worst(servers.map(({ found: { document } }) => checkScopes(examination, document, wanted)))
    },
  },
]

async function checkForms(examination: Examination, issuer: string): Promise<Finding> {
  if (new URL(issuer).pathname === '/') return ok('the issuer has no path')
  const forms = ['oauth-inserted', 'openid-inserted', 'openid-appended'] as const
  const found: IssuerForm[] = []
  for (const form of forms) {
    const { document } = await fetchDocument(examination, formUrl(issuer, form))
    if (document !== undefined) found.push(form)
  }
  const seen = found.map((form) => quote(formUrl(issuer, form).pathname)).join(', ')
  return found.includes('oauth-inserted') || found.includes('openid-inserted')
    ? ok(seen)
    : clientProblem(
        examination,
        'issuer-path',
        `only ${seen}`,
        `also serve the metadata at ${quote(formUrl(issuer, 'oauth-inserted').href)} (RFC 8414 §3.1)`,
      )
}

/** Returns the scopes of the challenge and of the resource metadata. */
export async function scopesOfResource(examination: Examination): Promise<readonly string[]> {
  const { document } = await resourceMetadata(examination)
  const challenge = await bearerChallenge(examination).catch(() => undefined)
  const challenged = challenge?.parameters.get('scope')?.split(' ') ?? []
  const supported = textsOf(document, 'scopes_supported') ?? []
  return [...new Set([...challenged, ...supported])].filter((scope) => scope !== '')
}

function checkScopes(examination: Examination, metadata: Metadata, wanted: readonly string[]): Finding {
  const listed = textsOf(metadata, 'scopes_supported')
  if (listed === undefined || listed.length === 0) return ok('the authorization server lists no scopes')
  const known = new Set(listed)
  const missing = wanted.filter((scope) => !known.has(scope))
  if (missing.length > 0) {
    return clientProblem(
      examination,
      'issuer-scopes',
      `scopes_supported of the authorization server does not contain ${quoteAll(missing)}`,
      'add them: clients that request only the scopes of this list get a token without them',
    )
  }
  const ours = new Set([...wanted, ...COMMON_SCOPES])
  const unrelated = [...known].filter((scope) => !ours.has(scope))
  return unrelated.length === 0 || wanted.length === 0
    ? ok(`${listed.length} scopes`)
    : warn(
        `scopes_supported of the authorization server contains ${unrelated.length} other scopes: ${quoteAll(unrelated)}`,
        'shorten the list, or configure the scopes in Gemini CLI and in older versions of Codex: they request all of them (https://github.com/openai/codex/issues/15643)',
      )
}
