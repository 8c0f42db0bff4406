import { AISVS_C10 } from './aisvs.ts'
import { RFC_6750, RFC_8707, RFC_9728 } from './bearer-tokens.ts'
import { RFC_8705, RFC_9449 } from './bound-tokens.ts'
import { NINE_FLAWS } from './flaws.ts'
import { MCP_AUTHORIZATION_SERVERS } from './mcp-authorization-servers.ts'
import { MCP_SERVERS } from './mcp-servers.ts'
import { NSA } from './nsa.ts'
import type { Source } from './requirement.ts'
import { RFC_9700 } from './rfc9700.ts'

/** All documents, in the order of the page. */
export const SOURCES: readonly Source[] = [
  {
    title: 'MCP authorization: servers',
    short: 'MCP authorization, servers',
    about:
      'From [revision 2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization), whose requirements for servers include those of [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization). Sentences that only refer to other documents are left out.',
    rows: MCP_SERVERS,
  },
  {
    title: 'MCP authorization: authorization servers',
    short: 'MCP authorization, authorization servers',
    about:
      'From the same revisions, for the [authorization facade](authorization-facade.md). Without the facade, they concern your authorization server.',
    rows: MCP_AUTHORIZATION_SERVERS,
  },
  {
    title: 'RFC 9728, protected resource metadata',
    short: 'RFC 9728',
    about: 'From [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728), for a resource server.',
    rows: RFC_9728,
  },
  {
    title: 'RFC 6750, bearer tokens',
    short: 'RFC 6750',
    about: 'From [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750), for a resource server.',
    rows: RFC_6750,
  },
  {
    title: 'RFC 8707, resource indicators',
    short: 'RFC 8707',
    about:
      'From [RFC 8707](https://www.rfc-editor.org/rfc/rfc8707), for the facade, and for `upstreamToken` as a client.',
    rows: RFC_8707,
  },
  {
    title: 'RFC 9449, DPoP',
    short: 'RFC 9449',
    about:
      'From [RFC 9449](https://www.rfc-editor.org/rfc/rfc9449), for a resource server. Rows that begin with "Facade" concern the [authorization facade](authorization-facade.md).',
    rows: RFC_9449,
  },
  {
    title: 'RFC 8705, certificate-bound tokens',
    short: 'RFC 8705',
    about: 'From [RFC 8705](https://www.rfc-editor.org/rfc/rfc8705), for a resource server.',
    rows: RFC_8705,
  },
  {
    title: 'RFC 9700, security best current practice',
    short: 'RFC 9700',
    about:
      'From [RFC 9700](https://www.rfc-editor.org/rfc/rfc9700). Rows that begin with "Facade" concern the [authorization facade](authorization-facade.md), the others every resource server. [Security](security.md#rfc-9700-best-current-practice) has the threats.',
    rows: RFC_9700,
  },
  {
    title: 'OWASP AISVS, chapter C10',
    short: 'OWASP AISVS C10',
    about:
      'From [version 1.01](https://github.com/OWASP/AISVS/blob/main/1.01/en/0x10-C10-MCP-Security.md). Number 10.2.6 was removed from the standard.',
    rows: AISVS_C10,
  },
  {
    title: 'Nine flaws of remote MCP servers',
    short: 'Nine flaws (arXiv 2605.22333)',
    about:
      'From table 5 of [a measurement study](https://arxiv.org/abs/2605.22333) of May 2026, for the [authorization facade](authorization-facade.md). `doctor` looks for these flaws at any server: most checks need `--register`, and F9 needs `--login`.',
    rows: NINE_FLAWS,
  },
  {
    title: 'NSA, security design considerations',
    short: 'NSA U/OO/6030316-26',
    about:
      'The concerns and recommendations of the information sheet "Model Context Protocol (MCP): Security Design Considerations for AI-Driven Automation" (U/OO/6030316-26, May 2026). Its text was not available for this page: the headings are from [the mapping of Agent Threat Rules](https://github.com/Agent-Threat-Rule/agent-threat-rules), which quotes them.',
    rows: NSA,
  },
]
