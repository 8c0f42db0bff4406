import type { Requirement } from './requirement.ts'

const FILE = 'test/attacks/authorization-flaws.test.ts'
const AREA = 'authorization: nine flaws of remote MCP servers'

/** Returns a row of the study, with the attack at the facade. */
function row(
  flaw: string,
  requirement: string,
  check: string,
  how: string,
  attack: string,
  status: Requirement['status'] = 'implemented',
): Requirement {
  return {
    id: `flaw-${flaw}`,
    section: flaw,
    level: '',
    requirement,
    status,
    how: `${how} Check: [\`${check}\`](../reference/doctor.md#${check.replace('.', '')}).`,
    test: [FILE, `${AREA}: ${flaw}: ${attack}`],
  }
}

/** The nine flaws of "A First Measurement Study on Authentication Security in Real-World Remote MCP Servers". */
export const NINE_FLAWS: readonly Requirement[] = [
  row(
    'F1',
    'Anybody registers a redirect URI of an attacker',
    'flaw.registration',
    '`clients.redirectUris` or `clients.allow`. By default, scripts, http, and unknown private schemes are refused, and an https address of a stranger is named on the consent page.',
    'a client registers a redirect URI that runs code, has no TLS, or does something in another program: 400, and no client',
    'by option',
  ),
  row(
    'F2',
    'A `client_id` is accepted without a registration',
    'flaw.unknown-client',
    'An unknown client gets a page.',
    'a request with the id of a client that never registered: a page with 400',
  ),
  row(
    'F3',
    'The request to the identity provider has no PKCE',
    'flaw.upstream-pkce',
    'It has PKCE of its own.',
    'the request to the identity provider has no PKCE: S256, with another challenge than that of the client',
  ),
  row(
    'F4',
    'The state at the identity provider carries a redirect URI that can be changed',
    'flaw.upstream-context',
    'The state is random, and carries nothing.',
    'the state at the identity provider carries an address, which an attacker changes: the state is random, and a changed one is refused',
  ),
  row(
    'F5',
    'PKCE can be left out, or weakened to `plain`',
    'flaw.pkce',
    'Only S256.',
    'PKCE is left out, or has the method plain, at the authorization or the token endpoint: invalid_request, and invalid_grant',
  ),
  row(
    'F6',
    'The consent page can be skipped, or hides the redirect URI',
    'flaw.consent',
    'Each sign-in shows it, except for remembered consents to `clients.static`. The check cannot see the page, so it only looks for a code without a sign-in.',
    'the consent page is left out: a second sign-in, prompt=none, a link into the middle, and a form without its token: no code',
  ),
  row(
    'F7',
    'The redirect URI of a request is not compared with the registered one',
    'flaw.redirect',
    'Compared exactly, except for the port of a loopback address.',
    'the redirect URI of a request is changed: a page with 400',
  ),
  row(
    'F8',
    'The state is missing, fixed, or predictable',
    'flaw.upstream-state',
    '256 random bits at the provider, bound to the browser. The check compares the states of two sign-ins. The state of a client is its own task.',
    'the state at the identity provider can be guessed, or belongs to another browser: at least 256 random bits, and a page with 400',
  ),
  row(
    'F9',
    'A code can be used again',
    'flaw.code-replay',
    'A second use ends the grant.',
    'a code is used again: invalid_grant, and the refresh token of the first use is dead',
  ),
]
