import type { Proof, Requirement, Status } from './requirement.ts'

let count = 0

/** Returns a concern or a recommendation of the NSA. */
function row(section: string, requirement: string, status: Status, how: string, test?: Proof): Requirement {
  return {
    id: `nsa-${++count}`,
    section,
    level: '',
    requirement,
    status,
    how,
    ...(test !== undefined && { test }),
  }
}

/** The concerns and recommendations of "Model Context Protocol (MCP): Security Design Considerations for AI-Driven Automation". */
export const NSA: readonly Requirement[] = [
  row(
    'Concern',
    'Access control: identity and rights',
    'implemented',
    'Tokens of a user, scopes for each operation, and policies.',
    [
      'test/mcp/router/operation-scopes.test.ts',
      'tools/call {"name":"write","arguments":{}} of 2026-07-28 needs mcp:write',
    ],
  ),
  row(
    'Concern',
    'Insecure serialization of context and data',
    'implemented',
    'Only JSON, of limited size and depth, validated by schemas.',
    ['test/mcp/limits.test.ts', 'deeply nested JSON gets objects in arguments'],
  ),
  row(
    'Concern',
    'Poor approval workflows',
    'by option',
    '`confirm` asks the user before a tool runs. Changed definitions of tools are the task of clients.',
    ['test/mcp/operations/confirmations.test.ts', 'asks the user, and runs the tool once after a yes'],
  ),
  row(
    'Concern',
    'Token and session security: life cycle and replay',
    'implemented',
    'Sessions belong to a user. Grants can be revoked. `dpop` detects replay.',
    [
      'test/attacks/sessions.test.ts',
      'owners: an opaque token of another authorization server with the same subject: the session is not found (404), cached or not',
    ],
  ),
  row(
    'Concern',
    'Misconfiguration and poor implementation',
    'implemented',
    'Unknown and unsafe options are errors at startup. `doctor` checks the running server.',
    ['test/oauth/options.test.ts', 'OAuth options throw for a misspelt option'],
  ),
  row(
    'Concern',
    'Inconsistent behavior of models',
    'delegated',
    'The host of the model decides what the model does.',
  ),
  row('Concern', 'Missing audit logs', 'by option', '`withAudit` of telemetry, a chain of MACs.', [
    'test/telemetry/audit/audit.test.ts',
    'the refusals and tool calls of a server are audited over the wire, although sampling drops them',
  ]),
  row(
    'Concern',
    'Denial of service',
    'by option',
    '`limits` for each user, and `rateLimit` for refusals. Memory is always bounded.',
    [
      'test/attacks/limits.test.ts',
      'calls beyond limits: calls in revisions 2026-07-28, 2025-11-25, a batch, and three sessions: one count',
    ],
  ),
  row(
    'Recommendation',
    'Choose supported projects',
    'delegated',
    'The operator chooses. See the [security policy](../../SECURITY.md).',
  ),
  row(
    'Recommendation',
    'Design for boundaries: zones, and a proxy that filters outgoing requests',
    'delegated',
    'The operator separates networks. The package fetches configured URLs only.',
    [
      'test/attacks/tokens.test.ts',
      'tokens with keys from a JWKS endpoint: iss of an address on the canary: invalid',
    ],
  ),
  row(
    'Recommendation',
    'Validate parameters',
    'implemented',
    "Schemas, and `unknownArguments: 'reject'` for unknown ones.",
    ['test/mcp/operations/results.test.ts', 'invalid arguments are reported with their paths'],
  ),
  row(
    'Recommendation',
    'Constrain and sandbox the execution of tools',
    'delegated',
    'The operator restricts the process: [Containers and Kubernetes](containers.md).',
  ),
  row(
    'Recommendation',
    'Sign and verify messages, with expiry and replay protection',
    'gap',
    'MCP defines no signature of messages. With `dpop`, the client proves its key for each request, but not for the body.',
  ),
  row(
    'Recommendation',
    'Filter and monitor outputs and chains of tools',
    'delegated',
    'The client or a gateway filters what the model reads. Results of a tool with an `output` schema are validated.',
    [
      'test/mcp/operations/results.test.ts',
      '{"sum":"3"} does not match the output schema and is not sent, nor are its problems',
    ],
  ),
  row(
    'Recommendation',
    'Log each call with its parameters and identities',
    'by option',
    'Telemetry has user, client, and tool. `recordPayloads` adds parameters, `withAudit` keeps each event.',
    [
      'test/mcp/instrumentation/telemetry.test.ts',
      'a call emits accepted, tool, and request events in one session of the user',
    ],
  ),
  row(
    'Recommendation',
    'Track and patch vulnerabilities',
    'delegated',
    'The operator updates. See the [security policy](../../SECURITY.md).',
  ),
  row(
    'Recommendation',
    'Scan for open and vulnerable MCP servers',
    'implemented',
    '`doctor` checks one server for each run. It does not search a network.',
    ['test/cli/doctor.test.ts', 'reports an open server that does not check Origin and Host'],
  ),
]
