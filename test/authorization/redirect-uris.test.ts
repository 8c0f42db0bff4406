import { expect } from 'chai'
import {
  isLocalRedirect,
  redirectHost,
  redirectProblem,
  redirectSource,
} from '../../src/authorization/clients/redirect-uris.ts'

const CHARACTERS = 'has characters that a URI cannot have'
const NOT_ABSOLUTE = 'is not absolute'
const FORBIDDEN = 'has a forbidden scheme'
const HTTP = 'uses http without a loopback host'
const PRIVATE = 'has a private scheme without a path'
const HOST = 'has a host that is not a name or an address'

describe('redirectProblem()', () => {
  for (const [uri, problem] of [
    ['https://a.example/callback', undefined],
    ['https://a.example:8443/callback?a=b', undefined],
    ['https://[2001:db8::1]/', undefined],
    ['https://a_b-c.example/', undefined],
    ['http://localhost:1/', undefined],
    ['http://127.0.0.1/', undefined],
    ['http://[::1]:1/', undefined],
    ['cursor://anysphere.cursor-mcp/oauth', undefined],
    ['com.example.app:/callback', undefined],
    ['a+b.c-d:/callback', undefined],
    [`https://a.example/${'x'.repeat(1_982)}`, undefined],
    [`https://a.example/${'x'.repeat(1_983)}`, 'is longer than 2000 characters'],
    ['', CHARACTERS],
    ['https://a.example/ b', CHARACTERS],
    ['https://a.example/é', CHARACTERS],
    ...[...'"<>\\^`{|}'].map((character) => [`https://a.example/${character}`, CHARACTERS] as const),
    ['/callback', NOT_ABSOLUTE],
    ['https:a.example', NOT_ABSOLUTE],
    ['https:/a.example', NOT_ABSOLUTE],
    ['https://a.example/#', 'has a fragment'],
    ...[
      'about',
      'blob',
      'data',
      'file',
      'filesystem',
      'ftp',
      'javascript',
      'mailto',
      'vbscript',
      'view-source',
      'ws',
      'wss',
    ].map((scheme) => [`${scheme}:/a`, FORBIDDEN] as const),
    ['https://user@a.example/', 'has credentials'],
    ['https://:password@a.example/', 'has credentials'],
    ['https://a!b.example/', HOST],
    ['http://a.example/', HTTP],
    ['http://localhost.example/', HTTP],
    ['http://127.0.0.2/', HTTP],
    ['com.example.app:callback', PRIVATE],
    ['com.example.app:/', PRIVATE],
    ['com.example.app:/?code', PRIVATE],
  ] as const)
    it(`a redirect URI ${uri.slice(0, 40)} of length ${uri.length} ${problem ?? 'has no problem'}`, () => {
      expect(redirectProblem(uri)).to.equal(problem)
    })
})

describe('the target of a redirect URI', () => {
  for (const [uri, isLocal, host, source] of [
    ['https://a.example:8443/b', false, 'a.example:8443', 'https://a.example:8443'],
    ['http://localhost:3000/b', true, 'localhost:3000', 'http://localhost:3000'],
    ['http://[::1]:3000/b', true, '[::1]:3000', 'http:'],
    ['https://[2001:db8::1]/b', false, '[2001:db8::1]', 'https:'],
    ['cursor://anysphere.cursor-mcp/b', true, 'cursor://anysphere.cursor-mcp', 'cursor:'],
    ['com.raycast:/oauth', true, 'com.raycast://', 'com.raycast:'],
  ] as const)
    it(`the target of ${uri} is ${host}`, () => {
      expect([isLocalRedirect(uri), redirectHost(uri), redirectSource(uri)]).to.deep.equal([
        isLocal,
        host,
        source,
      ])
    })
})
