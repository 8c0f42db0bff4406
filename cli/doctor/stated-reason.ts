import { bearerChallengeOf } from './challenges.ts'
import { memberOf } from './conversation.ts'
import type { HttpExchange } from './http-exchange.ts'
import { quote } from './quote.ts'

/** The reason that a server gives for rejecting a request, in the challenge or in the body. */
export interface StatedReason {
  readonly error: string | undefined
  readonly description: string | undefined
}

/** Returns the reason in the `Bearer` challenge (RFC 6750 §3), or else that in the body. */
export function statedReason(response: HttpExchange): StatedReason {
  const parameters = bearerChallengeOf(response.header('www-authenticate'))?.parameters
  const body = response.json
  const error = memberOf(body, 'error')
  return {
    error: parameters?.get('error') ?? stringOf(error),
    description:
      parameters?.get('error_description') ??
      stringOf(memberOf(body, 'error_description')) ??
      // A JSON-RPC error.
      stringOf(memberOf(error, 'message')),
  }
}

/** Returns the status and the reason of a response: `401, invalid_token: "The access token has expired"`. */
export function describeRefusal(response: HttpExchange): string {
  const { error, description } = statedReason(response)
  return [
    [String(response.status), ...(error === undefined ? [] : [quote(error)])].join(', '),
    ...(description === undefined ? [] : [`"${quote(description)}"`]),
  ].join(': ')
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
