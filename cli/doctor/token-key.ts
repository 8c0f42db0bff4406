import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { isSameIssuer, knownServers } from './authorization-servers.ts'
import { type Compared, issuerFor } from './claim-differences.ts'
import type { DecodedToken } from './decoded-token.ts'
import type { Examination } from './examination.ts'
import { memberOf } from './json-object.ts'
import { fetchDocument } from './metadata-documents.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'

/** The problems of a signature by the error codes of jose. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ERR_JWKS_NO_MATCHING_KEY: 'which fits no key',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'whose key does not verify the signature,',
}

/** Verifies the signature of a token with the key set of its issuer. Returns a text with the reason if that is not possible. */
export async function compareKey(
  examination: Examination,
  { header: { kid, alg }, claims }: Extract<DecodedToken, { kind: 'jwt' }>,
): Promise<Compared | string> {
  // Other checks report why the metadata cannot be read.
  const servers = await knownServers(examination).catch(() => [])
  const server = servers.find(({ issuer, document }) =>
    [issuer, document.issuer].some((one) => isSameIssuer(claims.iss, issuerFor(claims, String(one)))),
  )
  const url = examination.safeUrl(server?.document.jwks_uri)
  if (url === undefined) return 'the metadata of its issuer names no key set'
  const { document, response } = await fetchDocument(examination, url)
  if (document === undefined) return `${quote(url.href)}: ${response?.summary ?? 'no response'}`
  try {
    await compactVerify(examination.token ?? '', createLocalJWKSet(document as unknown as JSONWebKeySet))
    return [['the key', []]]
  } catch (error) {
    const code = String(memberOf(error, 'code') ?? (error as Error).name)
    const problem = PROBLEMS[code]
    if (problem === undefined) return `${quote(url.href)}: ${code}`
    const kids = [document.keys].flat().map((key) => memberOf(key, 'kid'))
    const seen = `kid is ${quoteValue(kid)} with ${quoteValue(alg)}, ${problem} in the key set at ${quote(url.href)} (it has ${quoteAll(kids)})`
    const hint =
      'get a new token; if it is new, let the authorization server publish the key that signs its tokens at jwks_uri'
    return [['the key', [{ claim: 'key', seen, hint, isTolerable: true }]]]
  }
}
