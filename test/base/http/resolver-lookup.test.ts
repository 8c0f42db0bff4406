import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { createResolverLookup } from '../../../src/base/http/resolver-lookup.ts'

/** The addresses of hosts. The name server does not answer questions about others. */
const HOSTS: Readonly<Record<string, { readonly v4: readonly number[]; readonly v6: boolean }>> = {
  'both.example.com': { v4: [93, 184, 215, 14], v6: true },
  'old.example.com': { v4: [93, 184, 215, 15], v6: false },
  'none.example.com': { v4: [], v6: false },
}
const V6 = [0x26, 0x06, 0x47, 0, ...Array<number>(11).fill(0), 0x11]

/** Returns the answer of a name server, or undefined for an unknown host (RFC 1035, section 4.1). */
function answerTo(question: Buffer): Buffer | undefined {
  const labels: string[] = []
  let at = 12
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length))
    at += length + 1
  }
  const host = HOSTS[labels.join('.').toLowerCase()]
  if (host === undefined) return undefined
  const isV6 = question.readUInt16BE(at + 1) === 28
  const address = isV6 ? (host.v6 ? V6 : []) : host.v4
  const head = Buffer.from(question.subarray(0, 12))
  head.writeUInt16BE(0x8180, 2)
  head.writeUInt16BE(address.length === 0 ? 0 : 1, 6)
  head.writeUInt16BE(0, 8)
  head.writeUInt16BE(0, 10)
  const record = [0xc0, 12, 0, isV6 ? 28 : 1, 0, 1, 0, 0, 0, 60, 0, address.length, ...address]
  return Buffer.concat([head, question.subarray(12, at + 5), Buffer.from(address.length === 0 ? [] : record)])
}

describe('http: lookups without threads', () => {
  let server: Socket
  let lookup: ReturnType<typeof createResolverLookup>
  before(async () => {
    server = createSocket('udp4', (message, from) => {
      const answer = answerTo(message)
      if (answer !== undefined) server.send(answer, from.port, from.address)
    })
    server.bind(0, '127.0.0.1')
    await once(server, 'listening')
    lookup = createResolverLookup([`127.0.0.1:${server.address().port}`])
  })
  after(() => server.close())

  const find = (host: string): Promise<unknown> =>
    new Promise((resolve) => lookup(host, { all: true }, (error, found) => resolve(error ?? found)))

  it('a host has its addresses of IPv4 and IPv6', async () => {
    expect(await find('both.example.com')).to.deep.equal([
      { address: '93.184.215.14', family: 4 },
      { address: '2606:4700::11', family: 6 },
    ])
    expect(await find('old.example.com')).to.deep.equal([{ address: '93.184.215.15', family: 4 }])
  })

  it('a host without an address is an error', async () => {
    expect(await find('none.example.com')).to.be.instanceOf(Error)
  })

  it('hosts whose name server does not answer keep neither other lookups nor files waiting, and end', async () => {
    const slow = Array.from({ length: 20 }, (_, index) => find(`slow${index}.example.com`))
    const startedMs = performance.now()
    await find('old.example.com')
    await Promise.all(Array.from({ length: 8 }, () => readFile(fileURLToPath(import.meta.url))))
    expect(performance.now() - startedMs).to.be.lessThan(1_000)
    for (const one of await Promise.all(slow)) expect(one).to.be.instanceOf(Error)
    expect(performance.now() - startedMs).to.be.lessThan(9_000)
  }).timeout(20_000)
})
