import { expect } from 'chai'
import fc from 'fast-check'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { allowedToken, authorizations } from '../support/authorization.ts'
import { expectRefusal } from '../support/authorization-fuzz.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { RawConnection } from '../support/raw-http.ts'
import { runs } from '../support/runs.ts'

describe('a random Authorization header', () => {
  const adapterFor = (token: () => string | undefined) =>
    createMcpAdapter({
      router: KitMcpRouter.create(),
      oauth: oauthOptions({
        dpop: 'allowed',
        verifyToken: ({ bearerToken }) => ({ valid: bearerToken !== token() }),
      }),
    })

  it('a random Authorization header is rejected by the web-standard handler', async () => {
    let token: string | undefined
    const { server } = adapterFor(() => token)
    let asked = 0
    for (const authorization of fc.sample(authorizations, { numRuns: runs(1_500), seed: 2 })) {
      const headers = new Headers()
      try {
        for (const value of [authorization ?? []].flat()) headers.append('Authorization', value)
      } catch {
        // Some values cannot be sent.
        continue
      }
      asked++
      // The platform joins several values to one list, and removes white space around a value.
      token = allowedToken(headers.get('authorization') ?? '')
      const response = await server(new Request('https://mcp.example.com/mcp', { method: 'POST', headers }))
      expectRefusal(response.status, response.headers.get('www-authenticate') ?? '', await response.text())
    }
    expect(asked).to.be.above(runs(700))
  })

  it('random bytes as an Authorization header on a socket are rejected', async () => {
    let token: string | undefined
    const handler = mcpHandler(adapterFor(() => token))
    const { port } = await listen((req, res) => handler(req, res))
    const byte = fc.integer({ min: 1, max: 255 }).filter((code) => code !== 10 && code !== 13)
    const bytes = fc.array(byte, { maxLength: 24 }).map((codes) => String.fromCharCode(...codes))
    const start = fc.constantFrom('', 'Bearer ', 'bearer', 'DPoP ', 'Basic ')
    const value = fc.oneof(
      fc.tuple(start, bytes).map((parts) => parts.join('')),
      fc.tuple(start, fc.string({ unit: 'grapheme-ascii', maxLength: 24 })).map((parts) => parts.join('')),
    )
    const values = fc.array(value, { minLength: 1, maxLength: 2 })
    let refused = 0
    for (const sent of fc.sample(values, { numRuns: runs(400), seed: 3 })) {
      token =
        sent.length === 1 ? allowedToken((sent[0] as string).replace(/^[ \t]+|[ \t]+$/g, '')) : undefined
      const connection = await RawConnection.open(port)
      try {
        const lines = sent.map((one) => `Authorization: ${one}`)
        const response = await connection.send(
          ['POST /mcp HTTP/1.1', 'Host: 127.0.0.1', ...lines, 'Content-Length: 0', '', ''].join('\r\n'),
        )
        // Node.js itself rejects control characters.
        if (response.status === 400) continue
        refused++
        expectRefusal(response.status, response.header('www-authenticate') ?? '', response.body)
      } finally {
        connection.close()
      }
    }
    expect(refused).to.be.above(runs(150))
  })
})
