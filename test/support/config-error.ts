import { expect } from 'chai'
import { KitMcpConfigError, type KitMcpConfigErrorCode } from '../../src/options/config-error.ts'

export interface ExpectedConfigError {
  readonly code: KitMcpConfigErrorCode
  readonly option: string
  /** What the message must say about mending it. */
  readonly message: RegExp
}

/** `promise` must reject with a `KitMcpConfigError` that names its code, its option and the hint. */
export async function expectConfigRejection(promise: unknown, expected: ExpectedConfigError): Promise<void> {
  const outcome = await Promise.resolve(promise).then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error
    },
  )
  expectConfigError(outcome, expected)
}

/** `build` must throw a `KitMcpConfigError` that names its code, its option and the hint. */
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
