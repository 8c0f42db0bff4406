import { ClientCredentialsProvider as ClientCredentialsV2 } from '@modelcontextprotocol/client'
import { ClientCredentialsProvider as ClientCredentialsV1 } from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, type ServerFactory } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { type ProtectedServer, startProtectedServer } from './protected-server.ts'
import { Recorder, SIGN_IN_CLIENTS, SignedIn, V1, V2_LEGACY, V2_MODERN } from './sign-in-clients.ts'

const RECIPES = ['bread', 'broth', 'cake']
const startingWith = (value: string) => RECIPES.filter((name) => name.startsWith(value))

const router = KitMcpRouter.create()
  .tool('whoami', { description: 'Tells who is calling' }, (_args, { auth }) => auth?.user?.id)
  .tool(
    'save',
    { description: 'Saves a recipe', input: z.object({ name: z.string() }), scopes: ['mcp:write'] },
    ({ name }) => `Saved ${name}`,
  )
  .prompt(
    'cook',
    {
      description: 'Cooks',
      input: z.object({ recipe: z.string(), people: z.coerce.number().default(2) }),
      complete: { recipe: startingWith },
    },
    ({ recipe, people }) => `Cook ${recipe} for ${people}`,
  )
  .prompt('publish', { description: 'Publishes', scopes: ['mcp:write'] }, () => 'Publish it')
  .resource('index', { uri: 'recipes://index' }, () => RECIPES)
  .resource('drafts', { uri: 'recipes://drafts', scopes: ['mcp:write'] }, () => 'none')
  .resourceTemplate(
    'recipe',
    {
      uriTemplate: 'recipes://all/{name}',
      mimeType: 'text/markdown',
      list: () => RECIPES.map((name) => ({ name, uri: `recipes://all/${name}` })),
      complete: { name: startingWith },
    },
    (_uri, { name }) => `# ${name}`,
  )

/** An existing server without scopes. */
const existing: ServerFactory = ({ auth }) => {
  const server = new McpServer({ name: 'existing', version: '3.2.1' })
  server.registerTool('greet', { description: 'Greets' }, () => ({
    content: [{ type: 'text', text: `Hello, ${auth?.user?.id}` }],
  }))
  server.registerTool(
    'save',
    { description: 'Saves', inputSchema: z.object({ name: z.string() }) },
    (args) => ({
      content: [{ type: 'text', text: `Saved ${args.name}` }],
    }),
  )
  server.registerPrompt('publish', { description: 'Publishes' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'Publish it' } }],
  }))
  server.registerResource(
    'recipe',
    new ResourceTemplate('recipes://all/{name}', { list: undefined }),
    {},
    (uri) => ({
      contents: [{ uri: uri.href, text: '# A recipe' }],
    }),
  )
  return server
}

/** Registers a client before the test. */
const registeredAt = ({ authorization }: ProtectedServer) => ({
  client_id: authorization.clientId,
  issuer: authorization.issuer,
})

const textOf = (result: any): string => result.content[0].text

describe('clients: signing in', () => {
  let server: ProtectedServer
  before(async () => {
    server = await startProtectedServer({ router })
  })
  after(() => server.close())

  for (const kind of SIGN_IN_CLIENTS) {
    describe(kind.name, () => {
      let session: SignedIn
      afterEach(() => session.close())

      async function signedIn(registered = true) {
        session = new SignedIn(kind, server.resource, registered ? { client: registeredAt(server) } : {})
        return await session.connect()
      }

      for (const registered of [false, true]) {
        it(`a ${kind.name} ${registered ? 'with a registration' : 'that registers itself'} gets a token after a 401`, async () => {
          expect(await signedIn(registered)).to.equal(kind.revision)
          const { recorder, wallet } = session
          const path = new URL(server.resource).pathname
          const [first] = recorder.at(path)
          expect(first).to.include({ status: 401 })
          expect(first?.challenge).to.contain('scope="mcp:read"')
          expect(recorder.at(`/.well-known/oauth-protected-resource${path}`)[0]).to.include({ status: 200 })
          expect(recorder.at('/reg').map(({ status }) => status)).to.deep.equal(registered ? [] : [201])
          const asked = recorder.at('/auth')[0]?.url.searchParams
          expect(asked?.get('code_challenge_method')).to.equal('S256')
          expect(asked?.get('resource')).to.equal(server.resource)
          expect(asked?.get('scope')?.split(' ')).to.contain('mcp:read')
          const [bought] = recorder.at('/token')
          expect(bought?.form.get('code_verifier')).to.be.a('string')
          expect(bought?.form.get('resource')).to.equal(server.resource)
          expect(wallet.claims).to.include({ aud: server.resource, scope: 'mcp:read' })
          expect(textOf(await session.client.callTool({ name: 'whoami', arguments: {} }))).to.equal('ada')
        })

        it(`a ${kind.name} ${registered ? 'with a registration' : 'that registers itself'} steps up once for a tool`, async () => {
          await signedIn(registered)
          const save = () => session.client.callTool({ name: 'save', arguments: { name: 'soup' } })
          await session.stepUp(save)
          const refused = session.recorder.exchanges.filter(({ status }) => status === 403)
          expect(refused).to.have.length(1)
          expect(refused[0]?.challenge).to.match(
            /^Bearer realm="mcp-server", error="insufficient_scope", scope="mcp:read mcp:write", resource_metadata="/,
          )
          expect(session.wallet.claims.scope).to.equal('mcp:read mcp:write')
          expect(textOf(await save())).to.equal('Saved soup')
          expect(textOf(await session.client.callTool({ name: 'whoami', arguments: {} }))).to.equal('ada')
        })
      }

      it(`a ${kind.name} steps up for a prompt and for a resource`, async () => {
        await signedIn()
        const publish = () => session.client.getPrompt({ name: 'publish' })
        await session.stepUp(publish)
        expect((await publish()).messages[0].content.text).to.equal('Publish it')
        await session.close()

        await signedIn()
        const read = () => session.client.readResource({ uri: 'recipes://drafts' })
        await session.stepUp(read)
        expect((await read()).contents[0].text).to.equal('none')
      })
    })
  }
})

describe('clients: a token that expires', () => {
  const TOKEN_SECONDS = 3
  let server: ProtectedServer
  before(async () => {
    server = await startProtectedServer({
      router,
      authorization: { tokenSeconds: TOKEN_SECONDS, refreshTokens: true },
    })
  })
  after(() => server.close())

  for (const kind of SIGN_IN_CLIENTS) {
    it(`an expired token is refreshed by a ${kind.name}, whose calls then succeed`, async () => {
      const session = new SignedIn(kind, server.resource, { client: registeredAt(server) })
      await session.connect()
      const { exp = 0, jti } = session.wallet.claims
      // A timer can fire a millisecond too early.
      await until(() => Date.now() >= exp * 1000, 20)
      expect(textOf(await session.client.callTool({ name: 'whoami', arguments: {} }))).to.equal('ada')
      const refused = session.recorder.at('/mcp').filter(({ status }) => status === 401)
      expect(refused.at(-1)?.challenge).to.contain('error="invalid_token"').and.to.contain('expired')
      const bought = session.recorder.at('/token').map(({ form }) => form.get('grant_type'))
      expect(bought[0]).to.equal('authorization_code')
      expect(bought).to.include('refresh_token')
      expect(session.wallet.claims).to.include({ aud: server.resource, scope: 'mcp:read' })
      expect(session.wallet.claims.jti).not.to.equal(jti)
      await session.close()
    })
  }

  // The v1 client refreshes its token with the scopes that it has, and then gives up.
  for (const kind of [V2_LEGACY, V2_MODERN]) {
    it(`a ${kind.name} with a refresh token can still step up`, async () => {
      const session = new SignedIn(kind, server.resource, { client: registeredAt(server) })
      await session.connect()
      const save = () => session.client.callTool({ name: 'save', arguments: { name: 'soup' } })
      await session.stepUp(save)
      expect(textOf(await save())).to.equal('Saved soup')
      await session.close()
    })
  }
})

describe('clients: client credentials', () => {
  let server: ProtectedServer
  before(async () => {
    server = await startProtectedServer({ router })
  })
  after(() => server.close())

  for (const [kind, Provider] of [
    [V1, ClientCredentialsV1],
    [V2_LEGACY, ClientCredentialsV2],
    [V2_MODERN, ClientCredentialsV2],
  ] as const) {
    it(`a ${kind.name} with client credentials gets access without a user`, async () => {
      const { authorization, resource } = server
      const provider = new Provider({
        ...authorization.service,
        expectedIssuer: authorization.issuer,
        scope: 'mcp:read',
      })
      const recorder = new Recorder()
      const connection = kind.open(resource, { fetch: recorder.fetch, provider })
      expect(await connection.connect()).to.equal(kind.revision)
      expect(recorder.at('/mcp')[0]).to.include({ status: 401 })
      const call = await connection.client.callTool({ name: 'whoami', arguments: {} })
      expect(textOf(call)).to.equal('notes-service')
      expect(recorder.at('/token')).to.have.length(1)
      await connection.client.close()
    })
  }
})

describe('clients: a server of the official SDK with declared scopes', () => {
  let server: ProtectedServer
  before(async () => {
    server = await startProtectedServer({
      router: existing,
      options: {
        scopes: {
          tools: { save: ['mcp:write'] },
          prompts: { publish: ['mcp:write'] },
          resources: { 'recipes://all/{name}': ['mcp:write'] },
        },
      },
    })
  })
  after(() => server.close())

  const OPERATIONS: Readonly<Record<string, (client: any) => Promise<string>>> = {
    'a tool': async (client) => textOf(await client.callTool({ name: 'save', arguments: { name: 'soup' } })),
    'a prompt': async (client) => (await client.getPrompt({ name: 'publish' })).messages[0].content.text,
    'a resource': async (client) =>
      (await client.readResource({ uri: 'recipes://all/cake' })).contents[0].text,
  }

  for (const kind of SIGN_IN_CLIENTS) {
    for (const [what, operation] of Object.entries(OPERATIONS)) {
      it(`a ${kind.name} steps up for ${what} of an SDK server`, async () => {
        const session = new SignedIn(kind, server.resource, { client: registeredAt(server) })
        await session.connect()
        expect(textOf(await session.client.callTool({ name: 'greet', arguments: {} }))).to.equal('Hello, ada')
        await session.stepUp(() => operation(session.client))
        expect(session.wallet.claims.scope).to.equal('mcp:read mcp:write')
        expect(await operation(session.client)).to.be.oneOf(['Saved soup', 'Publish it', '# A recipe'])
        await session.close()
      })
    }
  }
})
