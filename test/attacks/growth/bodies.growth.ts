import type { ServerResponse } from 'node:http'
import { readBody } from '../../../src/base/http/body-reader.ts'
import type { NodeRequest } from '../../../src/base/http/node-middleware.ts'
import { NodeMcpRequest } from '../../../src/express/node-request.ts'
import { isTooDeepValue, parsedBytes } from '../../../src/mcp/wire/json-rpc.ts'
import { forbiddenHeader } from '../../../src/mcp/wire/origin-policy.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('bodies', () => {
  const byte = Buffer.from('x')
  for (const [what, chunk] of [
    ['1 byte', byte],
    ['1 byte as a string', 'x'],
    ['0 bytes', Buffer.alloc(0)],
  ] as const) {
    it(`a body in chunks of ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => {
        void readBody(
          (sink) => {
            for (let count = 0; count < size; count++) sink.chunk(chunk)
            sink.end()
            return () => undefined
          },
          { maxBytes: size, timeoutMs: 1_000 },
        )
      }, 50_000))
  }

  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    'nested arrays': (size) => '['.repeat(size) + ']'.repeat(size),
    'brackets that never close': (size) => '['.repeat(size),
    'nested objects': (size) => '{"a":'.repeat(size) + '}'.repeat(size),
    'consecutive arrays': (size) => `[${'[],'.repeat(size)}[]]`,
    'quotation marks': (size) => `[${'['.repeat(200)}${'"'.repeat(size)}`,
    'strings that never end': (size) => `${'['.repeat(200)}"${'\\"'.repeat(size)}`,
    backslashes: (size) => `${'['.repeat(200)}"${'\\'.repeat(2 * size)}"${']'.repeat(200)}`,
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`the depth of many ${what} is checked in linear time`, () =>
      expectLinearGrowth((size) => parsedBytes(make(size)), 50_000))
  }

  it('the depth of a wide value is checked in linear time', () =>
    expectLinearGrowth(
      (size) => isTooDeepValue(Array.from({ length: size }, () => ({ a: [{}], b: [1] }))),
      20_000,
    ))
})

describe('headers of a request', () => {
  const res = { once: () => undefined, destroyed: false } as unknown as ServerResponse
  const incomingOf = (name: string, values: readonly string[], url = '/mcp'): NodeMcpRequest =>
    new NodeMcpRequest(
      {
        method: 'POST',
        url,
        httpVersionMajor: 1,
        headers: { host: 'localhost' },
        rawHeaders: values.flatMap((value) => [name, value]),
        socket: {},
      } as unknown as NodeRequest,
      res,
      true,
    )

  it('an Authorization header that is repeated many times is read in linear time', () =>
    expectLinearGrowth(
      (size) =>
        incomingOf(
          'Authorization',
          Array.from({ length: size }, () => 'Bearer a'),
        ).authorization,
      10_000,
    ))

  for (const [what, make] of Object.entries({
    slashes: (size: number) => '/'.repeat(size),
    'percent signs': (size: number) => `/${'%'.repeat(size)}`,
    'dot segments': (size: number) => '/..'.repeat(size),
    'question marks': (size: number) => `/?${'?'.repeat(size)}`,
    'spaces at the end': (size: number) => `/a${' '.repeat(size)}!`,
  })) {
    it(`a request target with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => {
        const incoming = incomingOf('X', [], make(size))
        return [incoming.path, incoming.request.url]
      }, 10_000))
  }

  for (const [what, make] of Object.entries({
    colons: (size: number) => `a${':'.repeat(size)}`,
    dots: (size: number) => `${'.'.repeat(size)}`,
    'percent-encoded characters': (size: number) => '%C3%A9'.repeat(size),
    labels: (size: number) => `${'a.'.repeat(size)}b`,
    digits: (size: number) => `localhost:${'1'.repeat(size)}`,
    'percent signs': (size: number) => '%61'.repeat(size),
    'characters other than ASCII': (size: number) => 'é'.repeat(size),
  })) {
    it(`a Host or Origin with many ${what} is checked in linear time`, () =>
      expectLinearGrowth((size) => {
        const value = make(size)
        const request = { host: value, origin: undefined, listensOnLoopback: true }
        forbiddenHeader(
          { ...request, header: () => undefined },
          { allowedOrigins: undefined, allowedHosts: undefined, hasOAuth: false },
        )
        forbiddenHeader(
          { ...request, host: 'localhost', header: () => `http://${value}` },
          { allowedOrigins: undefined, allowedHosts: undefined, hasOAuth: false },
        )
      }, 10_000))
  }
})
