import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { responseText } from '../../../src/mcp/wire/json-safe.ts'
import { problemIn } from '../../../src/mcp/wire/schema-issues.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('validation errors', () => {
  it('validation errors with many issues are reported in linear time', () => {
    const issues = Array.from({ length: 200_000 }, (_, index) => ({ message: 'x', path: ['a', index] }))
    expectLinearGrowth((size) => problemIn(issues.slice(0, size)), 50_000)
  })
  it('validation errors with a long path, name, or message are reported in linear time', () => {
    expectLinearGrowth((size) => problemIn([{ message: 'x', path: new Array(size).fill('a') }]), 50_000)
    expectLinearGrowth((size) => problemIn([{ message: 'x', path: ['a'.repeat(size)] }]), 50_000)
    expectLinearGrowth((size) => problemIn([{ message: 'x'.repeat(size), path: [] }]), 50_000)
  })
  it('validation errors of the SDK are shortened in linear time', () =>
    expectLinearGrowth((size) => {
      const message = JSON.stringify(new Array(size).fill({ message: 'x', path: ['a'] }))
      responseText({ jsonrpc: '2.0', id: 1, error: { code: -32_603, message } } as JSONRPCMessage)
    }, 2_500))
})
