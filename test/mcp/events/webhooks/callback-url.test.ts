import { expect } from 'chai'
import { problemWithUrl } from '../../../../src/mcp/events/webhooks/callback-url.ts'

describe('mcp/events/webhooks: callback URLs', () => {
  for (const [url, problem] of [
    ['https://hook.example.com', undefined],
    ['https://hook.example.com:8443/x?y=z', undefined],
    ['https://hook.example.com:443/', undefined],
    ['https://8.8.8.8/', undefined],
    ['https://[2606:4700::1111]/', undefined],
    [`https://hook.example.com/${'x'.repeat(2_000)}`, undefined],
    [5, 'a string'],
    [undefined, 'a string'],
    ['', 'https'],
    ['/hook', 'https'],
    ['http://hook.example.com/', 'https'],
    ['ftp://hook.example.com/', 'https'],
    ['javascript:alert(1)', 'https'],
    ['https://', 'https'],
    ['https://user@hook.example.com/', 'credentials'],
    ['https://user:password@hook.example.com/', 'credentials'],
    ['https://hook.example.com/#', 'fragment'],
    ['https://hook.example.com/#part', 'fragment'],
    ['https://hook.example.com:22/', 'port'],
    ['https://hook.example.com:80/', 'port'],
    [`https://hook.example.com/${'x'.repeat(2_048)}`, '2048 characters'],
    [`https://hook.example.com/${'é'.repeat(1_000)}`, '2048 characters'],
    ['https://127.0.0.1/', 'public'],
    ['https://[::1]/', 'public'],
  ] as const)
    it(`the callback URL ${String(url).slice(0, 60)} ${problem === undefined ? 'is accepted' : `is rejected: ${problem}`}`, () => {
      const found = problemWithUrl(url)
      if (problem === undefined) expect(found).to.equal(undefined)
      else expect(found).to.contain(problem)
    })
})
