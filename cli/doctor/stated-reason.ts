import type { HttpExchange } from './http-exchange.ts'
import { memberOf } from './json-object.ts'
import { quote } from './quote.ts'

/** The reason that a server gives for rejecting a request, in the challenge or in the body. */
export interface StatedReason {
  readonly error: string | undefined
  readonly description: string | undefined
}

/** Returns the reason in the `Bearer` challenge (RFC 6750 §3), or else that in the body. */
export function statedReason({ challenge, json }: HttpExchange): StatedReason {
  const parameters = challenge?.parameters
  const error = memberOf(json, 'error')
  return {
    error: parameters?.get('error') ?? stringOf(error),
    description:
      parameters?.get('error_description') ??
      stringOf(memberOf(json, 'error_description')) ??
      // A JSON-RPC error.
      stringOf(memberOf(error, 'message')),
  }
}

/** Returns the status and the reason of a response: `401, invalid_token: "The access token has expired"`. */
export function describeRefusal(response: HttpExchange): string {
  const { error, description } = statedReason(response)
  const code = error === undefined ? String(response.status) : `${response.status}, ${quote(error)}`
  return description === undefined ? code : `${code}: "${quote(description)}"`
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
