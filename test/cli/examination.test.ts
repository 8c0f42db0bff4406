import { expect } from 'chai'
import { Examination } from '../../cli/doctor/examination.ts'
import { HttpExchange } from '../../cli/doctor/http-exchange.ts'
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

  it('the second response with 429 makes a check inconclusive, and the first one does not', async () => {
    const examination = examinationOf('https://mcp.example.com/mcp')
    const outgoing = { method: 'POST', url: examination.url, headers: {} } as HttpExchange['outgoing']
    const limited = new HttpExchange(outgoing, { statusCode: 429, headersDistinct: {} }, '', 1, undefined)
    expect(examination.keep(limited, undefined)).to.equal(limited)
    expect(() => examination.keep(limited, undefined)).to.throw(/responded with 429/)
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
