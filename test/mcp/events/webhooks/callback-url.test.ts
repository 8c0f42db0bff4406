import { expect } from 'chai'
import { problemWithUrl } from '../../../../src/mcp/events/webhooks/callback-url.ts'

// test/attacks/events.test.ts asks for many more URLs over the wire.
describe('mcp/events/webhooks: callback URLs', () => {
  for (const [url, problem, allowsLoopback] of [
    ['https://hook.example.com:8443/x?y=z', undefined],
    ['https://[2606:4700::1111]/', undefined],
    [`https://hook.example.com/${'x'.repeat(2_000)}`, undefined],
    [`https://hook.example.com/${'é'.repeat(1_000)}`, '2048 characters'],
    ['https://hook.example.com/#', 'fragment'],
    ['https://hook.example.com:80/', 'port'],
    ['http://127.0.0.1:8787/hook', 'https'],
    ['http://127.0.0.1:8787/hook', undefined, true],
    ['http://[::1]:8787/', undefined, true],
    ['http://127.0.0.1/', 'a port', true],
    ['http://localhost:8787/', 'https', true],
    ['http://10.0.0.1:8787/', 'https', true],
    ['https://10.0.0.1:8787/', 'public', true],
  ] as const)
    it(`${url.slice(0, 60)} ${problem === undefined ? 'is accepted' : `is rejected: ${problem}`}${allowsLoopback ? ', with allowLoopback' : ''}`, () => {
      const found = problemWithUrl(url, undefined, allowsLoopback)
      if (problem === undefined) expect(found).to.equal(undefined)
      else expect(found).to.contain(problem)
    })
})
