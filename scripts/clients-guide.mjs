// Writes docs/guides/clients.md from the tables in cli/clients. The tests compare the page with them.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CLIENT_IDS } from '../build/cli/clients/client-id.js'
import { affectedBy, profileOf } from '../build/cli/clients/profiles.js'
import { QUIRKS } from '../build/cli/clients/quirks.js'

/**
 * The texts of each section of the guide, in Markdown: how users add a server (`add`), how the client registers, its
 * callback, its reaction to a 403 with `insufficient_scope` (`stepUp`), the source, and the date of the facts (`seen`).
 */
const SECTIONS = {
  claude: {
    add: `On the web and in the desktop application, open Settings → Connectors → Add custom connector, and paste the URL of the server. The server
needs a public URL with an IPv4 address, because requests come from \`160.79.104.0/21\` and not from the machine of the user.`,
    registration:
      'Client ID metadata document `https://claude.ai/oauth/mcp-oauth-client-metadata`, dynamic registration, or a client ID and secret in the advanced settings of the connector.',
    callback: '`https://claude.ai/api/mcp/auth_callback` and `https://claude.com/api/mcp/auth_callback`',
    stepUp: 'Yes, after a 403 with `insufficient_scope`.',
    source: 'https://claude.com/docs/connectors/building/authentication',
    seen: '2026-11-22',
  },
  'claude-code': {
    add: `\`\`\`sh
claude mcp add --transport http notes https://mcp.example.com/mcp
\`\`\`

Then enter \`/mcp\` in Claude Code to sign in. For a client that you registered, add \`--client-id <id> --client-secret --callback-port 8080\`. In a
project, the file \`.mcp.json\` has the same effect:

\`\`\`json
{ "mcpServers": { "notes": { "type": "http", "url": "https://mcp.example.com/mcp" } } }
\`\`\``,
    registration:
      'Client ID metadata document `https://claude.ai/oauth/claude-code-client-metadata`, dynamic registration, or `--client-id`.',
    callback:
      '`http://localhost:<port>/callback`, with port 3118 in the run, or with that of `--callback-port`',
    stepUp: 'Not reliably: see the known problems.',
    source: 'https://code.claude.com/docs/en/mcp',
    seen: '2026-11-22',
  },
  chatgpt: {
    add: `On the web, open Plugins, select the plus button and Add custom MCP server, and enter the URL of the server. Depending on the plan, developer mode
must be enabled in the settings first. The server needs a public URL.`,
    registration:
      'Client ID metadata document, dynamic registration, or a predefined client. It prefers the document.',
    callback:
      '`https://chatgpt.com/connector/oauth/<id>`, which ChatGPT shows when you add the server. Older connectors use `https://chatgpt.com/connector_platform_oauth_redirect`.',
    stepUp: 'Only from the result of a tool: see the known problems.',
    source: 'https://developers.openai.com/apps-sdk/build/auth',
    seen: '2026-11-22',
  },
  codex: {
    add: `\`\`\`sh
codex mcp add notes --url https://mcp.example.com/mcp
codex mcp login notes
\`\`\`

The first command writes to \`~/.codex/config.toml\`, which the command line, the desktop application, and the IDE extension share:

\`\`\`toml
[mcp_servers.notes]
url = "https://mcp.example.com/mcp"
scopes = ["mcp:read"]
\`\`\``,
    registration:
      'Client ID metadata document, dynamic registration, or `codex mcp add --oauth-client-id <id>`.',
    callback:
      '`http://127.0.0.1:<port>/callback` in the run. Documentation and reports up to September 2026 name `http://127.0.0.1:<port>/callback/<id>`, with an ID that depends on the URL of the server, so allow both. `mcp_oauth_callback_port` in the configuration sets the port.',
    stepUp: 'Not documented.',
    source: 'https://developers.openai.com/codex/mcp',
    seen: '2026-11-22',
  },
  cursor: {
    add: `Add the server to \`~/.cursor/mcp.json\`, or to \`.cursor/mcp.json\` in a project:

\`\`\`json
{ "mcpServers": { "notes": { "url": "https://mcp.example.com/mcp" } } }
\`\`\`

For a client that you registered, add \`"auth": { "CLIENT_ID": "…", "CLIENT_SECRET": "…", "scopes": ["mcp:read"] }\`.`,
    registration: 'Dynamic registration, or `auth.CLIENT_ID`.',
    callback:
      '`http://localhost:8787/callback`, `https://www.cursor.com/agents/mcp/oauth/callback`, and in older versions `cursor://anysphere.cursor-mcp/oauth/callback`',
    stepUp: 'Not documented.',
    source: 'https://cursor.com/docs/mcp',
    seen: '2026-11-22',
  },
  vscode: {
    add: `Run the command MCP: Add Server, or add the server to \`.vscode/mcp.json\`:

\`\`\`json
{ "servers": { "notes": { "type": "http", "url": "https://mcp.example.com/mcp" } } }
\`\`\``,
    registration:
      'Client ID metadata document `https://vscode.dev/oauth/client-metadata.json`, or dynamic registration. Otherwise, VS Code asks for a client ID.',
    callback:
      '`http://127.0.0.1:33418/`, or another port if this one is in use, and `https://vscode.dev/redirect`',
    stepUp: 'Yes. It signs in again with the scopes of the challenge of a 401 or 403.',
    source: 'https://code.visualstudio.com/docs/copilot/guides/mcp-developer-guide',
    seen: '2026-11-22',
  },
  gemini: {
    add: `\`\`\`sh
gemini mcp add --transport http notes https://mcp.example.com/mcp
\`\`\`

Then enter \`/mcp auth notes\` in Gemini CLI to sign in. In \`~/.gemini/settings.json\`, the URL is in \`httpUrl\`, not in \`url\`:

\`\`\`json
{ "mcpServers": { "notes": { "httpUrl": "https://mcp.example.com/mcp" } } }
\`\`\``,
    registration: 'Dynamic registration, or `oauth.clientId` in the settings of the server.',
    callback:
      '`http://localhost:<port>/oauth/callback`, with a free port or that of `oauth.redirectUri`. Older versions use port 7777.',
    stepUp: 'No. Configure the scopes with `oauth.scopes` in the settings of the server.',
    source: 'https://geminicli.com/docs/tools/mcp-server',
    seen: '2026-11-22',
  },
  inspector: {
    add: `\`\`\`sh
npx @modelcontextprotocol/inspector
\`\`\`

The Inspector needs Node.js 22.19 or later. With an earlier version, \`npx\` installs an old Inspector without a warning. Select Streamable HTTP and enter
the URL of the server, which can be on your machine. The command line lists the tools, and signs in first if the server requires it:

\`\`\`sh
npx @modelcontextprotocol/inspector --cli https://mcp.example.com/mcp --transport http --method tools/list
\`\`\`

With \`--header "Authorization: Bearer $TOKEN"\`, it sends your token instead. To call a tool, use \`--method tools/call --tool-name <name>\`.`,
    registration:
      'Dynamic registration, `--client-id`, or the client ID metadata document of `--client-metadata-url`.',
    callback:
      '`http://localhost:6274/oauth/callback` in the browser, and `http://127.0.0.1:6276/oauth/callback` on the command line',
    stepUp:
      'In the browser, yes: it signs in again and repeats the request. On the command line, no: it signs in for the same scopes again, then gives up.',
    source: 'https://modelcontextprotocol.io/docs/draft/tools/inspector/authorization',
    seen: '2026-11-22',
  },
}

const INTRODUCTION = `# Clients

<!-- Generated from cli/clients by \`npm run clients\`. Change those files instead. -->

Clients differ in how they search for the sign-in, how they register, and which mistakes of a server they forgive. This page lists what is known about
each, with sources and dates. The facts come from documentation, source code, and reports, which sometimes only quote the documentation. Some clients
were run against the example server of this package, and what they sent was recorded. The overview names their versions. The others were not run. The
values of \`clientInfo.name\` come from source code and from what servers have logged: metrics have them as \`mcp.client.name\`. A client can change at any time. Check your server with the profile of a client before you search for a mistake.

\`\`\`sh
npx mcp-gatekit doctor https://mcp.example.com/mcp --as claude
\`\`\`

[The doctor](../reference/doctor.md#check-a-server-for-one-client) replays the requests of the client and names the request at which it would stop.`

const OTHER_RUN = `mcp-remote 0.15.1 was run on 2026-11-22, and has no profile. It first sends GET without a token, then the POST, and follows the challenge of each 401.
It registers dynamically with the callback \`http://localhost:9401/oauth/callback\`, and requests the scopes of the challenge. Its \`User-Agent\` is \`node\` or
\`undici\`.`

const SETTINGS = `## Settings that help

The defaults of this package pass every profile of \`doctor --as\`. These settings are for known problems of some clients:

| Setting | For | Effect |
|---|---|---|
| \`oauth.challengeInResult: 'auto'\` | ChatGPT | A tool call without a sufficient token gets a result with the challenge instead of a 401 or 403, but only for this client |
| \`oauth.challengeWithoutToken: 'bare'\` | Codex Desktop | The challenge has no \`error\` if the request has no token |
| \`protectedResourceRouter(target, { authorizationServerMetadata: true })\` | Claude, Cursor | The metadata of the authorization server is also available on the host of the MCP server |
| \`oauth.securitySchemes: true\` | ChatGPT | Each listed tool states in \`_meta.securitySchemes\` which scopes it needs |

The verifiers accept both spellings of an audience that is only an origin, with and without a slash at the end. Set \`oauth.resource\` to exactly the URL
that users enter.`

/** Returns the page docs/guides/clients.md. */
export function guidePage() {
  const clients = CLIENT_IDS.map(profileOf)
  return `${[
    INTRODUCTION,
    `## Overview\n\n${overview(clients)}`,
    SETTINGS,
    ...clients.map(sectionOf),
    `## Other clients\n\n${OTHER_RUN}`,
    `## Discovery\n\n${DISCOVERY}\n\n${discovery(clients)}`,
    `## Known problems\n\n${quirkTable(Object.values(QUIRKS))}`,
  ].join('\n\n')}\n`
}

function overview(clients) {
  return table(
    ['Client', 'Run', '`clientInfo.name`', 'Registration', 'Callback', 'Requests more scopes'],
    clients.map(({ id, name, run, clientNames }) => {
      const { registration, callback, stepUp } = SECTIONS[id]
      const names = clientNames.map((one) => `\`${one}\``).join(', ')
      return [`[${name}](#${anchorOf(name)})`, run?.version ?? 'No', names, registration, callback, stepUp]
    }),
  )
}

function sectionOf({ id, name, run }) {
  const { add, source, seen } = SECTIONS[id]
  const ran =
    run === undefined ? 'No version was run' : `${run.program ?? name} ${run.version} was run on ${run.date}`
  return `## ${name}\n\n${add}\n\nSource: <${source}>, as of ${seen}. ${ran}. Check: \`doctor --as ${id}\`.`
}

const DISCOVERY = `\`doctor --as\` replays what each client requests before the sign-in and after it. The abbreviations:

- Resource metadata: the URL of the \`challenge\`; the well-known URL with the \`path\` of the server; the path with the well-known part \`appended\`; the
  well-known URL at the \`root\` of the host.
- Authorization server: the metadata of RFC 8414 (\`oauth\`) or of OpenID Connect (\`openid\`), with the well-known part \`inserted\` in front of the path of the
  issuer, \`appended\` to it, or at the \`root\`.
- A \`resource\` that is not \`exact\` can be a parent of the URL of the server.`

/** Returns the table of the discovery of each client, as \`doctor --as\` replays it. */
function discovery(clients) {
  return table(
    [
      'Client',
      'Before the sign-in',
      'After it',
      'Resource metadata',
      '`resource`',
      'Authorization server',
      'Scopes of',
      'Based on',
    ],
    clients.map((client) => [
      client.name,
      client.requests.map(describe).join(', ') || 'nothing',
      client.requestAfterSignIn === undefined ? '' : describe(client.requestAfterSignIn),
      `${client.places.join(', ')}${client.places.includes('challenge') && !client.searchesOn ? ' (with a challenge, only its URL)' : ''}`,
      client.resource === 'exact' ? 'exact' : 'parent',
      client.issuerForms.join(', '),
      client.scopes.join(', '),
      `${client.run === undefined ? '' : 'the run, '}<${client.source}> as of ${client.seen}.${client.assumption === undefined ? '' : ` ${client.assumption}`}`,
    ]),
  )
}

function describe({ method, message, userAgent }) {
  const what = message === undefined ? method : `${method} \`${message}\``
  return `${what} ${userAgent === undefined ? 'without `User-Agent`' : `as \`${userAgent}\``}`
}

function quirkTable(rows) {
  return table(
    ['Client', 'Problem', 'Server', 'This package', 'Check', 'Seen'],
    rows.map((quirk) => {
      const { behavior, sources, seen, remedy, setting, check } = quirk
      return [
        capitalized(affectedBy(quirk)),
        `${behavior} (${sources.map((url, index) => `[${index + 1}](${url})`).join(', ')})`,
        remedy,
        setting ?? '',
        check === undefined ? '' : `[\`${check}\`](../reference/doctor.md#${check.replace('.', '')})`,
        seen,
      ]
    }),
  )
}

function table(head, rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Returns the anchor of a heading. */
function anchorOf(heading) {
  return heading.toLowerCase().replaceAll(' ', '-')
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(new URL('../docs/guides/clients.md', import.meta.url), guidePage())
