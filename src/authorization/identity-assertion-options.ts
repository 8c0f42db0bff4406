import { optionChecksOf } from '../options/option-checks.ts'
import { also, type OptionRule, optional, type RulesFor } from '../options/option-rules.ts'

const { httpsIssuer, httpsUrl, invalidKind, invalidOption, items, members, required, text } =
  optionChecksOf('authorizationFacade')

/** An identity provider whose assertions are accepted. */
export interface IdentityAssertionIssuer {
  /** The issuer: the `iss` of its assertions. */
  readonly issuer: string
  /** The URL of its keys. By default it is read from the metadata of the issuer. */
  readonly jwksUri?: string | undefined
  /**
   * The accepted `tenant` of its assertions, for an issuer with several tenants. Without it, assertions with a `tenant` are
   * refused.
   */
  readonly tenant?: string | undefined
}

/** The identity assertions (ID-JAG) that an authorization server accepts. */
export interface IdentityAssertionsOptions {
  /** The identity providers whose assertions are accepted. */
  readonly issuers: readonly IdentityAssertionIssuer[]
}

const ISSUER_RULES = {
  issuer: required(
    also(httpsIssuer, (option, issuer) => {
      if (issuer.includes('|'))
        throw invalidOption(option, 'must not contain a vertical bar', issuer, 'Encode it as %7C.')
    }),
    'set it to the issuer of the identity provider',
  ),
  jwksUri: optional(httpsUrl),
  tenant: optional(text),
} satisfies RulesFor<IdentityAssertionIssuer>

const RULES = {
  issuers: required(
    items(
      'must be a non-empty array of { issuer }',
      members('must contain objects such as { issuer }', ISSUER_RULES),
      1,
    ),
    'set it to a list of identity providers: [{ issuer }]',
  ),
} satisfies RulesFor<IdentityAssertionsOptions>

/** The rule of the option `identityAssertions`. A server does not accept its own assertions: those of its `url`. */
export const identityAssertionsRule: OptionRule<Required<IdentityAssertionsOptions>> = also(
  members('must be an object such as { issuers: [{ issuer }] }', RULES),
  (option, { issuers }, { url }) => {
    const own = issuers.find(({ issuer }) => issuer === url)
    if (own !== undefined)
      throw invalidOption(
        `${option}.issuers.issuer`,
        'must not be the option url',
        own.issuer,
        'Name the identity provider of the users.',
      )
    if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length)
      throw invalidKind(`${option}.issuers`, 'must not contain an issuer twice', issuers)
  },
)
