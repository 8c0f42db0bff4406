import { forbiddenHeader } from '../../../src/mcp/wire/origin-policy.ts'
import { readBearerToken } from '../../../src/oauth/authorization-header.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('headers', () => {
  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    'spaces after the scheme': (size) => `Bearer ${' '.repeat(size)}`,
    'spaces within the token': (size) => `Bearer ${'a '.repeat(size)}`,
    'padding within the token': (size) => `Bearer ${'a='.repeat(size)}`,
    commas: (size) => `Bearer a${',Bearer a'.repeat(size)}`,
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`an Authorization header with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => readBearerToken(make(size)), 20_000))
  }

  const HOSTS: Readonly<Record<string, (size: number) => string>> = {
    'characters other than ASCII': (size) => 'é'.repeat(size),
    'percent-encoded characters': (size) => '%C3%A9'.repeat(size),
    'punycode labels': (size) => 'xn--a.'.repeat(size),
    dots: (size) => '.'.repeat(size),
  }
  for (const [what, make] of Object.entries(HOSTS)) {
    it(`Host and Origin headers with many ${what} are checked in linear time`, () =>
      expectLinearGrowth((size) => {
        const options = { allowedOrigins: undefined, allowedHosts: new Set(['a.example']), hasOAuth: true }
        const request = (host: string, origin: string) => ({
          host,
          origin: 'https://a.example',
          listensOnLoopback: false,
          header: () => origin,
        })
        forbiddenHeader(request(make(size), 'https://a.example'), options)
        forbiddenHeader(request('a.example', `https://${make(size)}`), options)
      }, 5_000))
  }
})
