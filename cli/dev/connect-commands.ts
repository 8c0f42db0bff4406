import { isLoopbackHostname } from '../../src/base/options/option-checks.ts'

/** The URL of the server, and the commands that connect clients to it. */
export type Connect = NonNullable<ReturnType<typeof connectTo>>

/** A URL without characters that a shell or a terminal treats in a special way. */
const PLAIN_URL = /^https?:\/\/[\w.:[\]-]+(?:\/[\w.~%/-]*)?$/

/**
 * Returns the commands for the server of a resource metadata document. Returns `undefined` if the resource is not a plain URL on
 * this machine.
 */
export function connectTo(resource: string | undefined) {
  if (resource === undefined || !PLAIN_URL.test(resource) || !URL.canParse(resource)) return undefined
  if (!isLoopbackHostname(new URL(resource).hostname)) return undefined
  // A shell expands brackets, which IPv6 addresses contain.
  const url = resource.includes('[') ? `'${resource}'` : resource
  return {
    url: resource,
    commands: [
      { client: 'Claude Code', command: `claude mcp add --transport http dev ${url}` },
      { client: 'Codex', command: `codex mcp add dev --url ${url}` },
      {
        client: 'MCP Inspector',
        command: `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`,
      },
      { client: 'Doctor', command: `npx mcp-gatekit doctor ${url} --login` },
    ],
  }
}
