// A client in a web page, with the official SDK: it registers, signs the user in, lists the tools, and calls them. If a tool needs
// more scopes, the user signs in once more, and the call is repeated.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'

const endpoint = new URL(document.documentElement.dataset.server)
const connect = document.getElementById('connect')
const tools = document.getElementById('tools')
const status = document.getElementById('status')

// The browser leaves the page for the sign-in, so everything is kept in the tab. Scripts of the page can read it.
const load = (name) => JSON.parse(sessionStorage.getItem(name) ?? 'null') ?? undefined
const save = (name, value) => sessionStorage.setItem(name, JSON.stringify(value))

const authProvider = {
  redirectUrl: new URL('/', location.href).href,
  clientMetadata: {
    client_name: 'Notes page',
    redirect_uris: [new URL('/', location.href).href],
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  },
  state() {
    save('state', crypto.randomUUID())
    return load('state')
  },
  clientInformation: () => load('client'),
  saveClientInformation: (client) => save('client', client),
  tokens: () => load('tokens'),
  saveTokens: (tokens) => save('tokens', tokens),
  codeVerifier: () => load('verifier'),
  saveCodeVerifier: (verifier) => save('verifier', verifier),
  discoveryState: () => load('discovery'),
  saveDiscoveryState: (discovered) => save('discovery', discovered),
  redirectToAuthorization(url) {
    if (load('next').again) throw new Error('the server refuses the new token, too')
    location.assign(url)
  },
}

/** Runs a step. For a sign-in, the browser leaves the page, and `next` is done when it has come back. */
async function run(next, step) {
  save('next', next)
  try {
    status.textContent = (await step()) ?? ''
    sessionStorage.removeItem('next')
  } catch (error) {
    status.textContent = error instanceof UnauthorizedError ? 'Signing in …' : `Failed: ${error.message}`
  }
}

let client

async function open() {
  client = new Client({ name: 'notes-page', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(endpoint, { authProvider }))
  const listed = await client.listTools()
  tools.replaceChildren(
    ...listed.tools.map(({ name }) => {
      const button = document.createElement('button')
      button.textContent = name
      button.onclick = () => run({ tool: name }, () => call(name))
      const item = document.createElement('li')
      item.append(button)
      return item
    }),
  )
  return 'Connected'
}

async function call(name) {
  const { content } = await client.callTool({ name, arguments: {} })
  return content[0].text
}

connect.onclick = () => run({}, open)

const answer = new URLSearchParams(location.search)
if (answer.has('state')) {
  const next = load('next') ?? {}
  history.replaceState(null, '', location.pathname) // the code must not stay in the address
  await run({ ...next, again: true }, async () => {
    if (answer.get('state') !== load('state')) throw new Error('the answer belongs to another sign-in')
    await new StreamableHTTPClientTransport(endpoint, { authProvider }).finishAuth(answer)
    const opened = await open()
    return next.tool === undefined ? opened : await call(next.tool)
  })
}
