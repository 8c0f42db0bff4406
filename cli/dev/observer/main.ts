import { announceProcess } from './announce-process.ts'
import { observeRequests } from './observe-requests.ts'

// `mcp-gatekit dev` loads this file into the user's server, before the server itself.
const feedUrl = process.env.MCP_GATEKIT_DEV_URL
if (feedUrl !== undefined) {
  await announceProcess(feedUrl)
  observeRequests(feedUrl)
}
