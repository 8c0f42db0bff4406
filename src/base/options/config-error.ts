/** The reason why an option was rejected. */
export type KitMcpConfigErrorCode =
  | 'MCP_CONFIG_MISSING_OPTION'
  | 'MCP_CONFIG_INVALID_OPTION'
  | 'MCP_CONFIG_UNKNOWN_OPTION'

/**
 * The error for an invalid option of the gate, a verifier, the router, or the adapter. It is thrown when these are built.
 * Only `jwtVerifier()` that is used without a gate rejects with it later, when it is first called. The message says what
 * is expected, what was received, and how to fix it. It describes a secret only by its kind and length.
 *
 * @example
 * ```ts
 * import { KitMcpConfigError, jwtVerifier } from 'mcp-gatekit'
 *
 * try {
 *   jwtVerifier({ issuer: 'auth.example.com', audience: 'https://mcp.example.com/mcp' })
 * } catch (error) {
 *   if (!(error instanceof KitMcpConfigError)) throw error
 *   console.error(error.option, error.message)
 * }
 * ```
 * @see docs/reference/errors.md
 */
export class KitMcpConfigError extends Error {
  override readonly name = 'KitMcpConfigError'
  /** The reason why the option was rejected. */
  readonly code: KitMcpConfigErrorCode
  /** The name of the option. */
  readonly option: string
  /** The heading that explains the option: `docs/reference/errors.md#…`. */
  readonly docs: string

  /**
   * Creates the error.
   * @param code the reason why the option was rejected.
   * @param option the name of the option.
   * @param message the message for people.
   * @param docs the heading that explains the option. Defaults to the heading of `code`.
   */
  constructor(
    code: KitMcpConfigErrorCode,
    option: string,
    message: string,
    docs: string = `docs/reference/errors.md#${code.toLowerCase()}`,
  ) {
    super(message)
    this.code = code
    this.option = option
    this.docs = docs
  }
}
