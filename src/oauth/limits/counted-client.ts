import { clientKey } from '../../base/http/client-address.ts'
import type { RequestSource } from '../inputs.ts'

/**
 * Returns the key by which the client of a request is counted; `undefined` if its address is not known.
 * @param clientAddress the option `clientAddress`
 */
export function countedClient(
  clientAddress: ((request: Request) => string | undefined) | undefined,
  request: RequestSource,
): string | undefined {
  if (clientAddress === undefined) return clientKey(request.clientAddress)
  let address: unknown
  try {
    address = clientAddress(request.request)
    if (address === undefined) return undefined
    if (address instanceof Promise) address.catch(() => undefined)
  } catch {
    // An error must not lift the limit.
  }
  const named = typeof address === 'string' ? clientKey(address) : undefined
  // The returned value may come from a header that the client controls.
  return named ?? clientKey(request.clientAddress) ?? 'unknown'
}
