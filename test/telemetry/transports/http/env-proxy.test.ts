import { expect } from 'chai'
import { readEnvProxy } from '../../../../src/telemetry/transports/http/env-proxy.ts'
import { expectCode } from '../../../support/telemetry/recording.ts'

const HTTP = new URL('http://collector.example/events')
const HTTPS = new URL('https://collector.example/events')

describe('readEnvProxy', () => {
  const read = (target: URL, environment: Record<string, string>) =>
    readEnvProxy(target, { NODE_USE_ENV_PROXY: '1', ...environment })?.url.href

  const proxies = { HTTP_PROXY: 'http://proxy.example:3128', HTTPS_PROXY: 'http://secure.example:3129' }

  it('readEnvProxy chooses the proxy by the protocol of the target', () => {
    expect(read(HTTP, proxies)).to.equal('http://proxy.example:3128/')
    expect(read(HTTPS, proxies)).to.equal('http://secure.example:3129/')
    expect(read(HTTPS, { HTTP_PROXY: 'http://proxy.example' })).to.equal(undefined)
  })

  it('readEnvProxy returns no proxy unless NODE_USE_ENV_PROXY is 1', () => {
    for (const flag of [undefined, '', '0', 'true'])
      expect(readEnvProxy(HTTP, { ...proxies, NODE_USE_ENV_PROXY: flag })).to.equal(undefined)
  })

  it('readEnvProxy returns the proxy if NODE_OPTIONS has --use-env-proxy', () => {
    const environment = { ...proxies, NODE_OPTIONS: '--no-warnings --use-env-proxy' }
    expect(readEnvProxy(HTTP, environment)?.url.href).to.equal('http://proxy.example:3128/')
  })

  it('readEnvProxy prefers variables in lower case, also empty ones', () => {
    expect(read(HTTP, { ...proxies, http_proxy: 'http://lower.example' })).to.equal('http://lower.example/')
    expect(read(HTTP, { ...proxies, http_proxy: '' })).to.equal(undefined)
  })

  it('readEnvProxy moves credentials from the URL to a header', () => {
    const proxy = readEnvProxy(HTTP, {
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: 'http://ada:p%40ss@proxy.example',
    })
    expect(proxy?.url.href).to.equal('http://proxy.example/')
    expect(proxy?.authorization).to.equal(`Basic ${Buffer.from('ada:p@ss').toString('base64')}`)
  })

  for (const HTTP_PROXY of ['proxy.example:3128', 'socks5://S3cr3t@proxy.example', 'S3cr3t']) {
    it(`readEnvProxy rejects ${HTTP_PROXY}, and its error does not contain it`, () => {
      const error = expectCode('TELEMETRY_CONFIGURATION_INVALID', () => read(HTTP, { HTTP_PROXY }))
      expect(error.message).to.include('the environment variable HTTP_PROXY').and.not.to.include('S3cr3t')
    })
  }

  for (const [noProxy, target, bypassed] of [
    ['*', 'https://a.example', true],
    ['a.example', 'https://a.example', true],
    ['A.Example', 'https://a.example', true],
    ['a.example', 'https://b.a.example', false],
    ['.a.example', 'https://b.a.example', true],
    ['.a.example', 'https://a.example', false],
    ['*.a.example', 'https://b.a.example', true],
    ['*.a.example', 'https://ba.example', false],
    ['a.example:443', 'https://a.example', true],
    ['a.example:80', 'https://a.example', false],
    ['a.example:8443', 'https://a.example:8443', true],
    ['x, a.example ,y', 'https://a.example', true],
    ['10.0.0.1', 'https://10.0.0.1', true],
    ['10.0.0.1-10.0.0.9', 'https://10.0.0.5', true],
    ['10.0.0.1-10.0.0.9', 'https://10.0.0.10', false],
    ['10.0.0.1-10.0.0.9', 'https://a.example', false],
    ['a-b.example', 'https://a-b.example', true],
    ['[::1]', 'https://[::1]:8443', true],
    ['::1', 'https://[::1]', true],
    ['[::1]:443', 'https://[::1]', true],
    ['', 'https://a.example', false],
    [',', 'https://a.example', false],
  ] as const) {
    it(`readEnvProxy ${bypassed ? 'bypasses' : 'uses'} the proxy for ${target} if NO_PROXY is ${JSON.stringify(noProxy)}`, () => {
      const proxy = read(new URL(target), { ...proxies, NO_PROXY: noProxy })
      expect(proxy === undefined).to.equal(bypassed)
    })
  }

  it('readEnvProxy bypasses the proxy for both ends of an address range in NO_PROXY, also if they end in 255', () => {
    for (const [address, bypassed] of [
      ['10.0.0.254', false],
      ['10.0.0.255', true],
      ['10.0.1.0', true],
      ['10.0.1.1', false],
    ] as const) {
      const proxy = read(new URL(`https://${address}`), { ...proxies, NO_PROXY: '10.0.0.255-10.0.1.0' })
      expect(proxy === undefined, address).to.equal(bypassed)
    }
  })
})
