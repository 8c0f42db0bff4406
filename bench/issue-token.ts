import { exportJWK, generateKeyPair, type JSONWebKeySet, SignJWT } from 'jose'

/** The issuer and the audience of the tokens. */
export const ISSUER = 'https://auth.example.com'
export const RESOURCE = 'https://mcp.example.com/mcp'

const KID = 'bench'

/** A key, and the tokens that it signs. */
export interface TokenIssuer {
  readonly jwks: JSONWebKeySet
  /** @param kid the id of the key in the header. By default, that of the key */
  issue(kid?: string): Promise<string>
}

export async function startIssuer(alg: 'RS256' | 'ES256'): Promise<TokenIssuer> {
  const { publicKey, privateKey } = await generateKeyPair(alg)
  return {
    jwks: { keys: [{ ...(await exportJWK(publicKey)), kid: KID, alg, use: 'sig' }] },
    issue: (kid = KID) =>
      new SignJWT({ scope: 'mcp:read mcp:write', client_id: 'bench' })
        .setProtectedHeader({ alg, kid })
        .setIssuer(ISSUER)
        .setAudience(RESOURCE)
        .setSubject('ada')
        .setIssuedAt()
        .setExpirationTime('1d')
        .sign(privateKey),
  }
}
