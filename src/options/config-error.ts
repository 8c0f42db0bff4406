/** Why an option was refused. */
export type KitMcpConfigErrorCode =
  | 'MCP_CONFIG_MISSING_OPTION'
  | 'MCP_CONFIG_INVALID_OPTION'
  | 'MCP_CONFIG_UNKNOWN_OPTION'

/**
 * A wrong option of the gate, a verifier, the router or the adapter. Thrown when they are built,
 * never at a request. `option` names the option; `message` says what was expected, what was given (a secret by its
 * length alone) and how to hint it; `docs` is the heading that tells more.
 */
export class KitMcpConfigError extends Error {
  override readonly name = 'KitMcpConfigError'
  /** Why the option was refused, for programs. */
  readonly code: KitMcpConfigErrorCode
  /** The name of the option. */
  readonly option: string
  /** Where the documentation of this package tells more: `docs/reference/errors.md#…`. */
  readonly docs: string

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
