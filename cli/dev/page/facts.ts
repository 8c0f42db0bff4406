import { attributeText } from './attribute-text.ts'
import type { ConsoleEvent } from './console-event.ts'

/** A value of a refused request, and the value that would have been accepted. */
export interface Fact {
  readonly name: string
  readonly expected?: string | undefined
  readonly received: string
  /** `true` if the value comes from a token that was not verified. */
  readonly unverified?: boolean
}

/** The part of the server's metadata document that tokens are compared with. */
export interface Expected {
  readonly resource?: string | undefined
  readonly authorizationServers?: readonly string[]
}

/** The latest metadata document of the server. */
let expected: Expected = {}

export function setExpected(given: Expected): void {
  expected = given
}

/** The claims that explain a reason. */
const CLAIMS: Readonly<Record<string, readonly string[]>> = {
  expired: ['exp'],
  wrong_resource: ['aud', 'iss'],
  invalid: ['iss', 'aud', 'exp'],
}

/** Returns the values that explain a refusal. */
export function factsOf({ attributes = {}, request, time }: ConsoleEvent): readonly Fact[] {
  const { reason } = attributes
  const required = attributes['kit.mcp.auth.scopes.required']
  if (typeof required === 'string') {
    const granted = attributeText(attributes['kit.mcp.auth.scopes.granted'] ?? '')
    return [{ name: 'scopes', expected: required || 'none', received: granted || 'none' }]
  }
  const claims = request?.unverified ?? {}
  const names = Object.hasOwn(CLAIMS, attributeText(reason))
    ? (CLAIMS[attributeText(reason)] as readonly string[])
    : []
  return names.flatMap((name) => {
    const received = claims[name]
    if (received === undefined) return []
    return [{ name, expected: expectedOf(name, time), received, unverified: true }]
  })
}

function expectedOf(name: string, time: string): string | undefined {
  if (name === 'exp') return `after ${time}`
  if (name === 'aud') return expected.resource
  return expected.authorizationServers?.join(' or ')
}

/** Formats a fact in one line. */
export function factText({ name, expected, received, unverified }: Fact): string {
  const wanted = expected === undefined ? '' : `expected ${expected}, `
  return `${name}: ${wanted}received ${received}${unverified === true ? ' (unverified)' : ''}`
}
