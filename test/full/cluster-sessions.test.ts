import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import { type Cluster, type ClusterNode, clusterMissing, startCluster } from '../support/cluster.ts'
import { connectClient, watchStream } from '../support/cluster-load.ts'
import { skipIf } from '../support/skip.ts'

const CLIENTS = 10
const CALLS = 10

/** A client of 2025 and the transport of its session. */
interface InSession {
  readonly client: Client
  readonly transport: StreamableHTTPClientTransport
  readonly id: string
  /** Resolves when its event stream is open. */
  readonly isOpen: Promise<void>
}

for (const path of ['/mcp', '/tools/mcp'])
  describe(`a cluster with sessions at ${path}`, function () {
    this.timeout(240_000)

    let cluster: Cluster
    let nodes: Cluster['nodes']
    let front: URL
    let token: string
    const open: Client[] = []

    beforeEach(async function () {
      skipIf(this, clusterMissing())
      cluster = await startCluster({ SESSIONS: 'on' }, path)
      nodes = cluster.nodes
      front = cluster.front
      token = await cluster.tokenFor('ada')
    })
    afterEach(async () => {
      for (const client of open.splice(0)) await client.close()
      await cluster?.stop()
    })

    async function begin(): Promise<InSession> {
      const client = new Client(
        { name: 'test', version: '1.0.0' },
        { versionNegotiation: { mode: 'legacy' } },
      )
      client.onerror = () => undefined
      open.push(client)
      const requestInit = { headers: { authorization: `Bearer ${token}` } }
      const { fetch, isOpen } = watchStream()
      const transport = new StreamableHTTPClientTransport(front, { requestInit, fetch })
      await client.connect(transport)
      return { client, transport, id: transport.sessionId ?? '', isOpen }
    }

    const beginAll = () => Promise.all(Array.from({ length: CLIENTS }, begin))

    const greet = async (client: Client): Promise<unknown> =>
      (await client.callTool({ name: 'greet', arguments: { name: 'you' } })).content
    const GREETING = [{ type: 'text', text: 'Hello, you!' }]

    /** Returns the status of a request with a session id. */
    async function statusOf(session: string, url = front): Promise<number> {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-session-id': session,
          'mcp-protocol-version': '2025-11-25',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      })
      await response.text()
      return response.status
    }

    const nodeOf = (session: string): ClusterNode => nodes[Number(session[0]) - 1] as ClusterNode

    it('requests of a session go to its node, and requests without a session go to both nodes', async () => {
      const sessions = await beginAll()
      for (const { id } of sessions) expect(id).to.match(/^[12]\.[\w-]{20,}$/)
      expect(new Set(sessions.map(({ id }) => id[0])).size).to.equal(2)
      await Promise.all(
        sessions.map(async ({ client }) => {
          for (let count = 0; count < CALLS; count++) expect(await greet(client)).to.deep.equal(GREETING)
        }),
      )
      // Without nginx: only the node that created a session accepts its id, which does not include the number of the node there.
      for (const { id } of sessions) {
        const [here, there] = nodeOf(id) === nodes[0] ? nodes : [nodes[1], nodes[0]]
        expect(await statusOf(id.slice(2), here.url)).to.equal(200)
        expect(await statusOf(id.slice(2), there.url)).to.equal(404)
      }
      const bySession = (await cluster.nginx.passedOn()).filter(({ session }) => session !== undefined)
      expect(bySession.length).to.be.at.least(CLIENTS * CALLS)
      for (const { ports, session } of bySession)
        expect(ports).to.deep.equal([nodeOf(session as string).port])

      const before = (await cluster.nginx.passedOn()).length
      const stateless = await connectClient(front, token, 'modern')
      open.push(stateless)
      for (let count = 0; count < 4; count++)
        await Promise.all(Array.from({ length: CALLS }, async () => greet(stateless)))
      const passed = (await cluster.nginx.passedOn()).slice(before)
      for (const { port } of nodes)
        expect(passed.filter(({ ports }) => ports[0] === port).length).to.be.at.least(CALLS)
    })

    it('the challenge names the metadata document at the root of the host, and the document names the public URL', async () => {
      const document = `${front.origin}/.well-known/oauth-protected-resource${path}`
      const { headers } = await fetch(front, { method: 'POST' })
      expect(headers.get('www-authenticate')).to.contain(`resource_metadata="${document}"`)
      expect(await (await fetch(document)).json()).to.include({ resource: front.href })
    })

    it('the sessions of a killed node get 404, and their clients start again on the other node', async () => {
      const sessions = await beginAll()
      const [one, two] = nodes
      await one.kill()
      for (const { client, id } of sessions) {
        if (nodeOf(id) === two) {
          expect(await greet(client)).to.deep.equal(GREETING)
          continue
        }
        expect(await statusOf(id)).to.equal(404)
        const error = await greet(client).catch((thrown) => thrown)
        expect(String(error)).to.match(/404|not found/i)
        const again = await begin()
        expect(again.id).to.match(/^2\./)
        expect(await greet(again.client)).to.deep.equal(GREETING)
      }
      await one.start()
      for (const { id } of sessions) expect(await statusOf(id)).to.equal(nodeOf(id) === one ? 404 : 200)
      const begun = await beginAll()
      expect(new Set(begun.map(({ id }) => id[0])).size).to.equal(2)
      for (const { client } of begun) expect(await greet(client)).to.deep.equal(GREETING)
    })
  })
