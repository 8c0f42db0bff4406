import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import {
  AppBridge,
  getToolUiResourceUri,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
} from '@modelcontextprotocol/ext-apps/app-bridge'

/** The action of a page that hosts apps. This file is bundled and runs in the browser. */
export interface AppHost {
  /** Calls a tool, and shows its result in the app of the tool, in the sandboxed frame `#app`. */
  show(token: string, tool: string): Promise<void>
}

const { document, location } = globalThis as unknown as { document: any; location: { origin: string } }

async function show(token: string, toolName: string): Promise<void> {
  const client = new Client({ name: 'page', version: '1.0.0' })
  const headers = { authorization: `Bearer ${token}` }
  await client.connect(
    new StreamableHTTPClientTransport(new URL('/mcp', location.origin), { requestInit: { headers } }),
  )
  const { tools } = await client.listTools()
  const tool = tools.find(({ name }) => name === toolName)
  const uri = getToolUiResourceUri(tool ?? {})
  if (uri === undefined) throw new Error(`The tool ${toolName} has no app`)
  const { contents } = await client.readResource({ uri })
  const [content] = contents
  if (content?.mimeType !== RESOURCE_MIME_TYPE || !('text' in content)) throw new Error('This is not an app')

  const frame = document.createElement('iframe')
  frame.id = 'app'
  frame.sandbox = 'allow-scripts'
  document.body.append(frame)
  const bridge = new AppBridge(client, { name: 'page', version: '1.0.0' }, {})
  const initialized = new Promise<void>((resolve) => {
    bridge.addEventListener('initialized', () => resolve())
  })
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow))
  // The policy that hosts set for an app without the option csp.
  const policy = `default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'`
  frame.srcdoc = content.text.replace(
    '<meta charset',
    `<meta http-equiv="Content-Security-Policy" content="${policy}"><meta charset`,
  )
  await initialized
  await bridge.sendToolInput({ arguments: {} })
  await bridge.sendToolResult((await client.callTool({ name: toolName, arguments: {} })) as never)
}

const host: AppHost = { show }
Object.assign(globalThis, { host })
