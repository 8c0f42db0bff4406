import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

const { checkIssuer, checkKnownMembers, checkText, checkUrl, invalidKind, invalidOption, missingOption } =
  optionChecksOf('authorizationFacade')

const STRICT = { allowInsecureHttp: 'never' } as const

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

/**
 * Checks the option `identityAssertions`. Returns no issuers if it is not set.
 * @param url the issuer of the server, which may not accept its own assertions.
 */
export function resolveIdentityAssertions(
  value: IdentityAssertionsOptions | undefined,
  url: string,
): readonly IdentityAssertionIssuer[] {
  if (value === undefined) return []
  if (!isOptionsObject(value))
    throw invalidKind('identityAssertions', 'must be an object such as { issuers: [{ issuer }] }', value)
  checkKnownMembers('identityAssertions', value, ['issuers'])
  const { issuers } = value
  if (issuers === undefined)
    throw missingOption('identityAssertions.issuers', 'set it to a list of identity providers: [{ issuer }]')
  if (!Array.isArray(issuers) || issuers.length === 0)
    throw invalidKind('identityAssertions.issuers', 'must be a non-empty array of { issuer }', issuers)
  const resolved = issuers.map((one: IdentityAssertionIssuer) => resolveIssuer(one, url))
  if (new Set(resolved.map(({ issuer }) => issuer)).size < resolved.length)
    throw invalidKind('identityAssertions.issuers', 'must not contain an issuer twice', issuers)
  return resolved
}

function resolveIssuer(value: IdentityAssertionIssuer, url: string): IdentityAssertionIssuer {
  const name = 'identityAssertions.issuers'
  if (!isOptionsObject(value)) throw invalidKind(name, 'must contain objects such as { issuer }', value)
  checkKnownMembers(name, value, ['issuer', 'jwksUri', 'tenant'])
  const { issuer, jwksUri, tenant } = value
  if (issuer === undefined)
    throw missingOption(`${name}.issuer`, 'set it to the issuer of the identity provider')
  checkIssuer(`${name}.issuer`, issuer, STRICT)
  if (issuer.includes('|'))
    throw invalidOption(`${name}.issuer`, 'must not contain a vertical bar', issuer, 'Encode it as %7C.')
  if (issuer === url)
    throw invalidOption(
      `${name}.issuer`,
      'must not be the option url',
      issuer,
      'Name the identity provider of the users.',
    )
  if (jwksUri !== undefined) checkUrl(`${name}.jwksUri`, jwksUri, STRICT)
  if (tenant !== undefined) checkText(`${name}.tenant`, tenant)
  return { issuer, jwksUri, tenant }
}
