import { expect } from 'chai'
import { discoveryUrls } from '../../cli/doctor/checks/issuers.ts'
import { metadataUrls } from '../../cli/doctor/documents.ts'
import { Examination } from '../../cli/doctor/examination.ts'
import { modernMessage } from '../../cli/doctor/messages.ts'

const examinationOf = (url: string, token?: string) =>
  new Examination({
    url: new URL(url),
    token,
    callArguments: {},
    timeoutMs: 1000,
    ignore: [],
    print: () => undefined,
  })

describe('an examination of doctor', () => {
  for (const [url, carries] of [
    ['https://mcp.example.com/mcp', true],
    ['http://localhost:3000/mcp', true],
    ['http://127.0.0.1:3000/mcp', true],
    ['http://[::1]:3000/mcp', true],
    ['http://mcp.example.com/mcp', false],
    ['http://10.0.0.1/mcp', false],
    ['http://localhost.example.com/mcp', false],
  ] as const) {
    it(`${carries ? 'sends' : 'does not send'} a token to ${url}`, () => {
      expect(examinationOf(url, 'secret').token).to.equal(carries ? 'secret' : undefined)
      const examination = examinationOf(url)
      examination.token = 'later'
      expect(examination.token).to.equal(carries ? 'later' : undefined)
      expect(examination.secrets.erase('later')).to.equal('[secret]')
    })
  }

  for (const [from, url, may] of [
    ['https://mcp.example.com/mcp', 'https://auth.example.com/', true],
    ['https://mcp.example.com/mcp', 'http://auth.example.com/', false],
    ['https://mcp.example.com/mcp', 'http://127.0.0.1:8080/', false],
    ['https://mcp.example.com/mcp', 'https://ada:pw@auth.example.com/', false],
    ['https://mcp.example.com/mcp', 'file:///etc/passwd', false],
    ['http://127.0.0.1:3000/mcp', 'http://localhost:8080/', true],
    ['http://127.0.0.1:3000/mcp', 'http://169.254.169.254/', false],
    ['http://mcp.internal/mcp', 'http://mcp.internal/.well-known/x', true],
    ['http://mcp.internal/mcp', 'http://auth.internal/', false],
  ] as const) {
    it(`${may ? 'fetches' : 'does not fetch'} ${url} if ${from} names it`, () =>
      expect(examinationOf(from).mayFetch(new URL(url))).to.equal(may))
  }

  it('sends the origin of a local web page to a server on loopback', () => {
    expect(examinationOf('http://127.0.0.1/mcp').pageOrigin).to.equal('http://localhost:6274')
    expect(examinationOf('https://mcp.example.com/').pageOrigin).to.equal('https://client.example')
  })
})

describe('the URLs of metadata documents', () => {
  for (const [url, path, root] of [
    [
      'https://a.example/mcp',
      '/.well-known/oauth-protected-resource/mcp',
      '/.well-known/oauth-protected-resource',
    ],
    ['https://a.example/', '/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource'],
  ] as const) {
    it(`for ${url} are those of RFC 9728`, () => {
      const urls = metadataUrls(new URL(url))
      expect([urls.path.href, urls.root.href]).to.deep.equal([
        `https://a.example${path}`,
        `https://a.example${root}`,
      ])
    })
  }

  it('for an issuer are those of RFC 8414 and OpenID Connect, with and without a path', () => {
    expect(discoveryUrls('https://auth.example/tenant/').map(({ href }) => href)).to.deep.equal([
      'https://auth.example/.well-known/oauth-authorization-server/tenant',
      'https://auth.example/.well-known/openid-configuration/tenant',
      'https://auth.example/tenant/.well-known/openid-configuration',
    ])
    expect(discoveryUrls('https://auth.example').map(({ pathname }) => pathname)).to.deep.equal([
      '/.well-known/oauth-authorization-server',
      '/.well-known/openid-configuration',
    ])
  })
})

describe('a message of doctor', () => {
  it('repeats a name in the header Mcp-Name, encoded if it is not plain ASCII', () => {
    const nameOf = (name: string) => modernMessage('tools/call', { name }).headers['mcp-name']
    expect(nameOf('add')).to.equal('add')
    expect(nameOf('größe')).to.equal(`=?base64?${Buffer.from('größe').toString('base64')}?=`)
    expect(nameOf(' x')).to.equal('=?base64?IHg=?=')
    expect(nameOf('=?x')).to.equal('=?base64?PT94?=')
  })
})
