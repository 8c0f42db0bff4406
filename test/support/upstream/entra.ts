import { createServer } from 'node:http'
import { decodeJwt } from 'jose'
import { listen, stop } from '../../../examples/listen.ts'
import { formOf } from './exchange-server.ts'

/** A user of the stand-in, by the `sub` of the incoming token. */
export type EntraUser = 'consented' | 'needs-consent' | 'needs-mfa' | 'signed-out'

export interface Entra {
  readonly tokenEndpoint: string
  readonly requests: readonly URLSearchParams[]
  close(): Promise<void>
}

const FIELDS = ['grant_type', 'client_id', 'client_secret', 'assertion', 'scope', 'requested_token_use']

/** The claims challenge of a conditional access policy, as Microsoft documents it. */
export const CLAIMS =
  '{"access_token":{"polids":{"essential":true,"values":["9ab03e19-ed42-4168-b6b7-7001fb3e933a"]}}}'

/**
 * Starts a stand-in for the token endpoint of Microsoft Entra ID, which checks every field of an on-behalf-of request
 * (https://learn.microsoft.com/entra/identity-platform/v2-oauth2-on-behalf-of-flow).
 */
export async function startEntra(clientId: string, clientSecret: string): Promise<Entra> {
  const requests: URLSearchParams[] = []
  const http = createServer(async (req, res) => {
    const form = await formOf(req)
    requests.push(form)
    const { status, body } = answer(form)
    res.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store' })
    res.end(JSON.stringify(body))

    function answer(fields: URLSearchParams) {
      const wrong = (error: string, description: string, more: object = {}) => ({
        status: 400,
        body: {
          error,
          error_description: `${description} Trace ID: 0000`,
          error_codes: [Number(description.slice(5, 11))],
          ...more,
        },
      })
      if (req.method !== 'POST' || req.url !== '/tenant/oauth2/v2.0/token')
        return wrong('invalid_request', 'AADSTS900144: The request is not a token request.')
      const repeated = [...fields.keys()].length !== new Set(fields.keys()).size
      const unknown = [...fields.keys()].filter((name) => !FIELDS.includes(name))
      const missing = FIELDS.filter((name) => !fields.get(name))
      if (repeated || unknown.length > 0 || missing.length > 0) {
        return wrong(
          'invalid_request',
          `AADSTS900144: Wrong parameters: ${[...unknown, ...missing].join(' ')}`,
        )
      }
      if (fields.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer')
        return wrong('unsupported_grant_type', 'AADSTS700031: Unsupported grant type.')
      if (fields.get('requested_token_use') !== 'on_behalf_of')
        return wrong('invalid_request', 'AADSTS901002: requested_token_use is wrong.')
      if (fields.get('client_id') !== clientId || fields.get('client_secret') !== clientSecret)
        return wrong('invalid_client', 'AADSTS7000215: Invalid client secret provided.')
      const { sub } = decodeJwt(fields.get('assertion') as string)
      if (sub === 'needs-consent')
        return wrong('invalid_grant', 'AADSTS65001: The user has not consented.', {
          suberror: 'consent_required',
        })
      if (sub === 'needs-mfa')
        return wrong('interaction_required', 'AADSTS50079: Multi-factor authentication is required.', {
          claims: CLAIMS,
        })
      if (sub === 'signed-out')
        return wrong('invalid_grant', `AADSTS500133: Assertion ${fields.get('assertion')} is not valid.`)
      return {
        status: 200,
        body: {
          token_type: 'Bearer',
          scope: 'https://graph.microsoft.com/User.Read',
          expires_in: 3599,
          ext_expires_in: 3599,
          access_token: `graph-token-of-${sub}`,
        },
      }
    }
  })
  const port = await listen(http, 0)
  return {
    tokenEndpoint: `http://127.0.0.1:${port}/tenant/oauth2/v2.0/token`,
    requests,
    close: () => stop(http),
  }
}
