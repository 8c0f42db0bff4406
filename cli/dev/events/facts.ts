import { type Attributes, attributeText, type ConsoleEvent, lookUp } from './console-event.ts'

/** The part of the server's metadata document that tokens are compared with. */
export interface Expected {
  readonly resource?: string | undefined
  readonly authorizationServers?: readonly string[]
}

/** The claims that explain a reason. */
const CLAIMS: Readonly<Record<string, readonly string[]>> = {
  expired: ['exp'],
  wrong_resource: ['aud', 'iss'],
  invalid: ['iss', 'aud', 'exp'],
}

/** Returns the values that explain a refusal: those that were expected and received. */
export function factsOf(
  { attributes = {}, request, time }: ConsoleEvent,
  { resource, authorizationServers }: Expected,
  reason: unknown = attributes.reason,
): readonly string[] {
  const required = attributes['kit.mcp.auth.scopes.required']
  if (typeof required === 'string') {
    const granted = attributeText(attributes['kit.mcp.auth.scopes.granted'] ?? '')
    return [`scopes: expected ${attributeText(required) || 'none'}, received ${granted || 'none'}`]
  }
  const claims: Attributes = request?.unverified ?? {}
  const expected: Readonly<Record<string, string | undefined>> = {
    exp: `after ${time}`,
    aud: resource,
    iss: authorizationServers?.join(' or '),
  }
  return (lookUp(CLAIMS, reason) ?? [])
    .filter((name) => claims[name] !== undefined)
    .map((name) => {
      const wanted = expected[name] === undefined ? '' : `expected ${expected[name]}, `
      return `${name}: ${wanted}received ${attributeText(claims[name])} (unverified)`
    })
}
