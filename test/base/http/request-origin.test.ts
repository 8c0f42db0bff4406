import { expect } from 'chai'
import { requestOrigin } from '../../../src/base/http/request-origin.ts'

function originOf(
  headers: Readonly<Record<string, string>>,
  { protocol = 'http', trusts = true }: { protocol?: 'http' | 'https'; trusts?: boolean } = {},
): string | undefined {
  return requestOrigin({ protocol, host: headers.host, header: (name) => headers[name] }, trusts)
}

describe('the origin of a request', () => {
  const forwarded: readonly (readonly [
    headers: Readonly<Record<string, string>>,
    origin: string | undefined,
  ])[] = [
    [{}, 'http://app:3000'],
    [{ 'x-forwarded-proto': 'https' }, 'https://app:3000'],
    [{ 'x-forwarded-host': 'mcp.example.com' }, 'http://mcp.example.com'],
    [{ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'mcp.example.com' }, 'https://mcp.example.com'],
    [
      { 'x-forwarded-proto': 'https, http', 'x-forwarded-host': 'mcp.example.com, inner' },
      'https://mcp.example.com',
    ],
    [{ 'x-forwarded-proto': 'HTTPS', 'x-forwarded-host': 'MCP.example.com:443' }, 'https://mcp.example.com'],
    [{ 'x-forwarded-proto': '', 'x-forwarded-host': ' ' }, 'http://app:3000'],
    [{ forwarded: 'for=192.0.2.1;proto=https;host=mcp.example.com' }, 'https://mcp.example.com'],
    [{ forwarded: 'Proto="https" ; HOST="mcp.example.com:8443"' }, 'https://mcp.example.com:8443'],
    [{ forwarded: 'proto=https;host=mcp.example.com, proto=http;host=inner' }, 'https://mcp.example.com'],
    [
      { forwarded: 'for="[2001:db8::1]";proto=https;host="[2001:db8::2]:8443"' },
      'https://[2001:db8::2]:8443',
    ],
    [{ forwarded: 'for=192.0.2.1;proto=;host' }, 'http://app:3000'],
    [
      {
        forwarded: 'proto=http;host=a.example',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'b.example',
      },
      'https://b.example',
    ],
    [{ forwarded: 'for="a,b;c";proto=https;host=mcp.example.com' }, 'https://mcp.example.com'],
    [{ forwarded: 'for="a\\"b, host=evil.example";host=mcp.example.com' }, 'http://mcp.example.com'],
    [{ forwarded: 'host="mcp\\.example.com"' }, 'http://mcp.example.com'],
    [{ forwarded: ' ; host=mcp.example.com;;proto=https; ' }, 'https://mcp.example.com'],
    [{ forwarded: 'host=mcp.example.com:8443 , host=inner' }, 'http://mcp.example.com:8443'],
    [{ forwarded: ', host=inner' }, 'http://app:3000'],
    [{ forwarded: 'host="mcp.example.com' }, 'http://app:3000'],
    [{ forwarded: 'host=mcp.example.com"' }, 'http://app:3000'],
    [{ forwarded: 'host="mcp.example.com"x' }, 'http://app:3000'],
    [{ forwarded: 'host=a.example;host=b.example' }, 'http://app:3000'],
    [{ forwarded: 'host=a.example;HOST="b.example"' }, 'http://app:3000'],
    [{ 'x-forwarded-host': `${'a'.repeat(300)}.example` }, undefined],
    [{ 'x-forwarded-proto': 'ftp' }, undefined],
    [{ 'x-forwarded-proto': 'javascript' }, undefined],
    [{ 'x-forwarded-host': 'a.example/evil' }, undefined],
    [{ 'x-forwarded-host': 'user@evil.example' }, undefined],
    [{ forwarded: 'host="evil.example/?"' }, undefined],
  ]
  for (const [headers, origin] of forwarded) {
    it(`the origin of a request is ${origin ?? 'unknown'} behind a trusted proxy that sends ${JSON.stringify(headers)}`, () => {
      expect(originOf({ host: 'app:3000', ...headers })).to.equal(origin)
      expect(originOf({ host: 'app:3000', ...headers }, { trusts: false })).to.equal('http://app:3000')
    })
  }

  const hosts: readonly (readonly [host: string | undefined, origin: string | undefined])[] = [
    [undefined, undefined],
    ['', undefined],
    ['app', 'https://app'],
    ['app:443', 'https://app'],
    ['APP.example.COM:8443', 'https://app.example.com:8443'],
    ['[::1]:3000', 'https://[::1]:3000'],
    ['app:99999', undefined],
    ['a b', undefined],
    ['a/b', undefined],
    ['a"b', undefined],
    ['a@b', undefined],
    ['a?b', undefined],
    ['a#b', undefined],
    ['a\\b', undefined],
    ['caf\u00e9.example', undefined],
    ['%61', undefined],
    [':', undefined],
  ]
  for (const [host, origin] of hosts) {
    it(`the origin of a request is ${origin ?? 'unknown'} for the host ${JSON.stringify(host)}`, () => {
      expect(originOf(host === undefined ? {} : { host }, { protocol: 'https' })).to.equal(origin)
    })
  }
})
