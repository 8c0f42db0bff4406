import express, { type Express } from 'express'
import {
  createMcpAdapter,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  type OAuthOptions,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { z } from 'zod'

const SALES: readonly { month: string; total: number }[] = [
  { month: 'Jan', total: 12 },
  { month: 'Feb', total: 19 },
  { month: 'Mar', total: 7 },
  { month: 'Apr', total: 23 },
]

// The document has no external scripts, so it needs no `csp`. It creates elements instead of HTML from the data, so that data
// cannot become code. It accepts messages only from its host.
const CHART = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Sales</title>
<style>
  body { margin: 0; padding: 12px; font: 14px system-ui, sans-serif; color-scheme: light dark }
  rect { fill: #4472c4 }
  text { fill: currentcolor; text-anchor: middle }
</style>
<svg id="chart" viewBox="0 0 400 200" role="img" aria-label="Sales by month"></svg>
<script type="module">
  const send = (message) => window.parent.postMessage({ jsonrpc: '2.0', ...message }, '*')

  function element(name, attributes, text = '') {
    const created = document.createElementNS('http://www.w3.org/2000/svg', name)
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value)
    created.textContent = text
    return created
  }

  function draw(rows) {
    const highest = Math.max(1, ...rows.map(({ total }) => total))
    const width = 400 / Math.max(1, rows.length)
    document.querySelector('#chart').replaceChildren(
      ...rows.flatMap(({ month, total }, index) => {
        const height = (total / highest) * 150
        const middle = (index + 0.5) * width
        return [
          element('rect', { x: index * width + 8, y: 175 - height, width: width - 16, height }),
          element('text', { x: middle, y: 168 - height }, String(total)),
          element('text', { x: middle, y: 195 }, month),
        ]
      }),
    )
  }

  window.addEventListener('message', ({ source, data }) => {
    if (source !== window.parent || data?.jsonrpc !== '2.0') return
    if (data.id === 'initialize' && data.result !== undefined)
      send({ method: 'ui/notifications/initialized' })
    else if (data.method === 'ui/notifications/tool-result') draw(data.params.structuredContent?.sales ?? [])
    else if (data.method === 'ui/resource-teardown') send({ id: data.id, result: {} })
  })
  send({
    id: 'initialize',
    method: 'ui/initialize',
    params: {
      appInfo: { name: 'sales-chart', version: '1.0.0' },
      appCapabilities: {},
      protocolVersion: '2026-01-26',
    },
  })
</script>
</html>`

/** Creates an Express application with a tool whose results hosts show as a chart. */
export function createChartServer(oauth: OAuthOptions): Express {
  const router = KitMcpRouter.create()
    .app('chart', { html: CHART, title: 'Sales chart', description: 'Sales by month', prefersBorder: true })
    // Hosts without apps, and models, use the text of the result.
    .tool(
      'sales',
      {
        description: 'Returns the sales of each month',
        output: z.object({ sales: z.array(z.object({ month: z.string(), total: z.number() })) }),
        app: 'chart',
        scopes: ['sales:read'],
        annotations: { readOnlyHint: true },
      },
      () => ({ sales: [...SALES] }),
    )
  const adapter = createMcpAdapter({ router, oauth, serverInfo: { name: 'sales', version: '1.0.0' } })

  const app = express()
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  return app
}
