import type { PlainResponse } from '../../../http/plain-response.ts'
import { jsonRpcError } from '../../wire/json-rpc.ts'

/** Returns the response to a request with the id of a session that does not exist, has ended, or belongs to another user. */
export function sessionNotFound(): PlainResponse {
  return jsonRpcError(404, -32_001, 'Session not found')
}
