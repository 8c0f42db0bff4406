import { expect } from 'chai'
import { receiveWebhooks } from '../../cli/doctor/checks/webhook-receiver.ts'
import { freePort } from '../support/free-port.ts'

describe('the webhook receiver of doctor', () => {
  it('accepts only messages to its own URLs, of a limited size and number', async () => {
    const port = await freePort()
    const receiver = await receiveWebhooks(port)
    try {
      const base = `http://127.0.0.1:${port}/hook?a=b`
      const endpoint = receiver.endpoint(new URL(base), true)
      const post = async (url: string, body: string, method = 'POST') => {
        const response = await fetch(url, { method, ...(method === 'POST' && { body }) })
        return [response.status, await response.text()]
      }
      expect(endpoint.url).to.match(/\/hook\?a=b&doctor=[\w-]{22}$/)
      for (const url of [base, `${base}&doctor=`, `${base}&doctor=constructor`, `http://127.0.0.1:${port}//`])
        expect(await post(url, '{}')).to.deep.equal([404, ''])
      expect(await post(endpoint.url, '', 'GET')).to.deep.equal([404, ''])
      expect(await post(endpoint.url, ' '.repeat(262_145))).to.deep.equal([413, ''])
      const challenge = { type: 'verification', challenge: 'c' }
      expect(await post(endpoint.url, JSON.stringify(challenge))).to.deep.equal([200, '{"challenge":"c"}'])
      for (let count = 0; count < 20; count++) expect(await post(endpoint.url, '{')).to.deep.equal([204, ''])
      expect(await post(endpoint.url, '{}')).to.deep.equal([429, ''])
      expect(endpoint.messages).to.have.length(20)
    } finally {
      await receiver.close()
    }
  })
})
