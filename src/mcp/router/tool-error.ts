import { tryOrUndefined } from '../../base/try-or-undefined.ts'

const BRAND = Symbol.for('mcp-gatekit.KitToolError')

/**
 * An error whose message the client receives. Throw it in a handler. The client of a tool gets a result with `isError: true`,
 * and that of a prompt or a resource a JSON-RPC error. The messages of other errors are never sent.
 * @example
 * ```ts
 * import { KitMcpRouter, KitToolError } from 'mcp-gatekit'
 * import { z } from 'zod'
 *
 * const input = z.object({ a: z.number(), b: z.number() })
 * export const router = KitMcpRouter.create().tool('divide', { description: 'Divides a by b', input }, ({ a, b }) => {
 *   if (b === 0) throw new KitToolError('b must not be 0')
 *   return { quotient: a / b }
 * })
 * ```
 * @see docs/reference/mcp.md
 */
export class KitToolError extends Error {
  override readonly name: string = 'KitToolError'

  /**
   * @param message the message for the client.
   * @param options `cause` is the reason for the error. Only telemetry receives it.
   */
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    Object.defineProperty(this, BRAND, { value: true })
  }

  /**
   * Returns `true` if a value is a `KitToolError`, also if another copy of this package created it.
   * @param error any value.
   * @returns `true` for a `KitToolError`.
   */
  static is(error: unknown): error is KitToolError {
    // A proxy, or a getter, may throw.
    return tryOrUndefined(() => (error as { [BRAND]?: unknown })[BRAND]) === true
  }
}
