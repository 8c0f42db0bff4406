import { ProtocolError, type ServerContext } from '@modelcontextprotocol/server'
import { type AuthorizedCall, checkedCall, DENIED_CODE, type PolicyServing } from './policy.ts'

/** Like `checkedCall`, for a prompt or a resource. @throws {ProtocolError} -32003 if the call is denied. */
export function permittedCall(
  serving: PolicyServing,
  sdk: ServerContext,
  kind: 'prompt' | 'resource',
  operation: object,
): AuthorizedCall | undefined {
  const call = checkedCall(serving, sdk, kind, operation)
  if (call !== undefined && 'denied' in call) throw new ProtocolError(DENIED_CODE, call.denied)
  return call
}
