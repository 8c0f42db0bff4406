import { optionChecksOf } from '../../base/options/option-checks.ts'
import { type OptionRule, optional, type ReadBy, type RulesFor } from '../../base/options/option-rules.ts'

const { members, oneOf, wholeNumber } = optionChecksOf('authorizationFacade')

const DAY_SECONDS = 86_400

/** The maximum lifetime of tokens that are renewed: ten years. */
const MAX_SECONDS = 3_650 * DAY_SECONDS

/** The lifetimes of tokens in whole seconds, and the use of refresh tokens that were replaced. */
export interface AuthorizationTokensOptions {
  /** The lifetime of access tokens, from 60 to 86 400. Defaults to 600. No access token outlives its grant. */
  readonly accessTtlSeconds?: number | undefined
  /** The lifetime of each refresh token from its issue, from 1 to ten years. Defaults to 30 days. */
  readonly refreshTtlSeconds?: number | undefined
  /**
   * The time after which a client that does not refresh must start a new sign-in, from 1 to ten years. If it is shorter than
   * `refreshTtlSeconds`, it is the lifetime of each refresh token. Defaults to no limit of its own.
   */
  readonly refreshIdleSeconds?: number | undefined
  /**
   * The time from a sign-in until the user must sign in again, from 1 to ten years. No token outlives it. A shorter time
   * applies to earlier sign-ins, too. Defaults to 365 days.
   */
  readonly grantTtlSeconds?: number | undefined
  /**
   * The time from its first use for which a refresh token stays usable, unless its successor is used before, from 0 to 600.
   * Each use returns the same successor. Defaults to 60. 0 allows one use.
   */
  readonly refreshGraceSeconds?: number | undefined
  /**
   * The consequence of the use of a refresh token whose successor was used: `'revoke'` ends the grant, `'refuse'` refuses only
   * this request. Defaults to `'revoke'` (RFC 9700 section 4.14.2).
   */
  readonly reuse?: 'revoke' | 'refuse' | undefined
}

const RULES = {
  accessTtlSeconds: optional(wholeNumber(60, DAY_SECONDS), 600),
  refreshTtlSeconds: optional(wholeNumber(1, MAX_SECONDS), 30 * DAY_SECONDS),
  refreshIdleSeconds: optional(wholeNumber(1, MAX_SECONDS)),
  grantTtlSeconds: optional(wholeNumber(1, MAX_SECONDS), 365 * DAY_SECONDS),
  refreshGraceSeconds: optional(wholeNumber(0, 600), 60),
  reuse: optional(oneOf(['revoke', 'refuse']), 'revoke'),
} satisfies RulesFor<AuthorizationTokensOptions>

/** The option `tokens`, checked and with its defaults. */
export type TokenRules = ReadBy<typeof RULES>

/** The rule of the option `tokens`. */
export const tokensRule: OptionRule<TokenRules> = members(
  'must be an object such as { accessTtlSeconds: 600 }',
  RULES,
)

/** The rules with the longest lifetimes. */
export const LONGEST_TOKENS: TokenRules = tokensRule(
  'tokens',
  { accessTtlSeconds: DAY_SECONDS, refreshTtlSeconds: MAX_SECONDS, grantTtlSeconds: MAX_SECONDS },
  {},
)
