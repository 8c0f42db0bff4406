const BRAND = Symbol.for('mcp-gatekit.KitToolError')

/**
 * Thrown by a handler to tell the client what went wrong: its message is sent as it is, in a result
 * with `isError: true`. The text of any other error is never sent.
 */
export class KitToolError extends Error {
  override readonly name = 'KitToolError'

  /** @param message what the client is told. @param options `cause` is told to telemetry alone. */
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    Object.defineProperty(this, BRAND, { value: true })
  }

  /** Whether `error` is a `KitToolError`, also one of another copy of this package. */
  static is(error: unknown): error is KitToolError {
    if (typeof error !== 'object' || error === null) return false
    try {
      return (error as { [BRAND]?: unknown })[BRAND] === true
    } catch {
      // A proxy, or a getter.
      return false
    }
  }
}
