import { expect } from 'chai'
import { KitMcpConfigError, type KitMcpConfigErrorCode } from '../../src/base/options/config-error.ts'

export interface ExpectedConfigError {
  readonly code: KitMcpConfigErrorCode
  readonly option: string
  /** The pattern that the message must match, usually its hint. */
  readonly message: RegExp
}

/** Expects `promise` to reject with a `KitMcpConfigError` that has this code, option, and message. */
export async function expectConfigRejection(promise: unknown, expected: ExpectedConfigError): Promise<void> {
  const outcome = await Promise.resolve(promise).then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error
    },
  )
  expectConfigError(outcome, expected)
}

/** Expects `build` to throw a `KitMcpConfigError` that has this code, option, and message. */
export function expectConfigError(build: () => unknown, expected: ExpectedConfigError): void {
  let thrown: unknown
  try {
    build()
  } catch (error) {
    thrown = error
  }
  expect(thrown, 'what was thrown').to.be.instanceOf(KitMcpConfigError)
  const { name, code, option, message } = thrown as KitMcpConfigError
  expect({ name, code, option }).to.deep.equal({
    name: 'KitMcpConfigError',
    code: expected.code,
    option: expected.option,
  })
  expect(message).to.match(expected.message)
}
