import { createHash } from 'node:crypto'
import { INVISIBLE, isVisible } from '../../base/options/visible-text.ts'
import { isLocalRedirect, redirectHost, redirectSource } from '../clients/redirect-uris.ts'
import type { ResolvedFacadeOptions, SignInClaims } from '../options.ts'

type Page = ResolvedFacadeOptions['page']

/** The contents of the consent page. */
export interface ConsentPageContent {
  /** The name that the client gives itself. */
  readonly name: string
  /** The URL of the client's metadata document, if its id is one. */
  readonly documentUrl: string | undefined
  readonly redirectUri: string
  readonly resource: string
  readonly scopes: readonly { readonly name: string; readonly description: string }[]
  /** The user as the provider names them. */
  readonly user: string
  /** The path at which the user can sign in with another account. */
  readonly otherAccount: string
  /** The token that the form sends back. */
  readonly csrf: string
  /** `true` if the client chose its name itself. */
  readonly isUnverified: boolean
}

/** The contents of an error page. */
export interface ErrorPageContent {
  readonly heading: string
  /** The sentence on what to do next. */
  readonly next: string
  /** The reason in the words of the application or of the provider. */
  readonly reason?: string | undefined
  /** The OAuth error, in small print. */
  readonly code?: string | undefined
}

/** The longest text of an error on a page. */
const MAX_DETAIL = 300

/** The longest name of a client or a user on a page. */
const MAX_NAME = 80

const STYLE = `:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif;--line:#c3c8d1;--dim:#4d5563;--accent:#1d4fc4;--card:#fff;--page:#f4f5f8;--on:#fff;--warn:#b7791f;--warned:#fff8e6}
@media (prefers-color-scheme:dark){:root{--line:#3d4553;--dim:#a9b3c2;--accent:#8fb0ff;--card:#171b22;--page:#0e1116;--on:#0e1116;--warn:#d9a441;--warned:#2a2314}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1rem;background:var(--page)}
main{width:100%;max-width:30rem;padding:1.5rem;background:var(--card);border:1px solid var(--line);border-radius:12px}
h1{font-size:1.25rem;line-height:1.35;margin:.25rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1rem;margin:1.25rem 0 .5rem}
p{margin:0 0 .75rem;overflow-wrap:anywhere}
.dim,dt,footer{color:var(--dim);font-size:.9375rem}
dl{margin:0}dd{margin:0 0 .75rem;overflow-wrap:anywhere;font-weight:600}
ul{margin:0;padding:0 0 0 1.25rem}li{margin:0 0 .375rem;overflow-wrap:anywhere}
img{display:block;max-width:8rem;max-height:3rem;margin:0 0 1rem}
.brand{margin:0;color:var(--dim);font-weight:600}
.small{margin:1.25rem 0 0;color:var(--dim);font-size:.8125rem}
.note{margin:1.25rem 0 0;padding:.75rem 1rem;background:var(--warned);border-left:4px solid var(--warn);border-radius:4px}
a{color:var(--accent)}
.other{display:inline-block;padding:.375rem 0;font-weight:400}
form{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.25rem 0 0}
button{flex:1 1 8rem;min-height:2.75rem;padding:.5rem 1.25rem;font:inherit;font-weight:600;color:inherit;background:transparent;border:1px solid var(--dim);border-radius:8px;cursor:pointer}
button[value=allow]{background:var(--accent);border-color:var(--accent);color:var(--on)}
.apps{list-style:none;padding:0}.apps li{margin:0 0 1rem;padding:1rem;border:1px solid var(--line);border-radius:8px}.apps h2{margin:0 0 .5rem}.apps dd{margin:0 0 .5rem;font-weight:400}.apps form{margin:.5rem 0 0}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
footer{margin:1.25rem 0 0}footer a{margin-inline-end:1rem}
`

const STYLE_SOURCE = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`

/**
 * Returns the headers of a page.
 * @param target the redirect URI to which this server may redirect after a form was sent, or `self` if it does not redirect to
 * another one. Without it, the page has no form.
 */
export function pageHeaders({ logo }: Page, target?: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src ${STYLE_SOURCE}`,
    ...(logo === undefined ? [] : [`img-src ${new URL(logo).origin}`]),
    "base-uri 'none'",
    "frame-ancestors 'none'",
    formAction(target),
  ]
  return {
    'Cache-Control': 'no-store',
    'Content-Security-Policy': policy.join('; '),
    'Content-Type': 'text/html; charset=utf-8',
    // With `no-referrer`, the form would be sent with the origin `null`.
    'Referrer-Policy': 'same-origin',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
  }
}

function formAction(target: string | undefined): string {
  if (target === undefined) return "form-action 'none'"
  return target === 'self' ? "form-action 'self'" : `form-action 'self' ${redirectSource(target)}`
}

/** Returns the page on which a user allows or denies the access of a client. It has no script. */
export function consentPage(page: Page, question: ConsentPageContent): string {
  const { redirectUri, resource, scopes, csrf, isUnverified, documentUrl, user, otherAccount } = question
  const name = plainName(question.name) || 'A client without a name'
  const rows = [
    [
      'The application receives the access at',
      `${redirectHost(redirectUri)}${isLocalRedirect(redirectUri) ? ' (a program on this device)' : ''}`,
    ],
    ...(documentUrl === undefined
      ? []
      : [['The application is described at', new URL(documentUrl).host] as const]),
    ['The access is for', resource],
  ] as const
  return layout(
    page,
    `Allow access to ${page.title}?`,
    `<h1><bdi>${escapeHtml(name)}</bdi> requests access to ${escapeHtml(page.title)}</h1>
<dl>
${rows.map(([term, value]) => `<dt>${term}</dt><dd><bdi>${escapeHtml(value)}</bdi></dd>`).join('\n')}
<dt>You are signed in as</dt><dd><bdi>${escapeHtml(plainName(user))}</bdi><br><a class="other" href="${escapeHtml(otherAccount)}">Use another account</a></dd>
</dl>
<h2 id="scopes">The application will be able to:</h2>
<ul aria-labelledby="scopes">
${scopes.map((scope) => `<li>${escapeHtml(scope.description)} <span class="dim">(${escapeHtml(scope.name)})</span></li>`).join('\n')}
</ul>
${isUnverified ? '<p class="note" role="note">The application chose its name itself. Continue only if you have just started to connect this application.</p>' : ''}
<form method="post">
<input type="hidden" name="csrf" value="${escapeHtml(csrf)}">
<button type="submit" name="decision" value="allow">Allow</button>
<button type="submit" name="decision" value="deny">Deny</button>
</form>`,
  )
}

/** Returns the page for an error that must not be sent to a client. */
export function errorPage(page: Page, { heading, next, reason, code }: ErrorPageContent): string {
  const paragraphs = [reason, next].filter((text) => text !== undefined)
  return layout(
    page,
    `${heading} – ${page.title}`,
    `<p class="brand"><bdi>${escapeHtml(page.title)}</bdi></p>
<h1>${escapeHtml(heading)}</h1>
${paragraphs.map((text) => `<p>${escapeHtml(plainName(text, MAX_DETAIL))}</p>`).join('\n')}
${code === undefined ? '' : `<p class="small">Error: ${escapeHtml(plainName(code, MAX_DETAIL))}</p>`}`,
  )
}

export function layout(page: Page, title: string, content: string): string {
  const { logo, links } = page
  const image = logo === undefined ? '' : `<img src="${escapeHtml(logo)}" alt="">`
  const footer = links.map(({ text, url }) => `<a href="${escapeHtml(url)}">${escapeHtml(text)}</a>`)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${image}
${content}
${footer.length === 0 ? '' : `<footer>${footer.join(' ')}</footer>`}
</main>
</body>
</html>
`
}

/** Removes invisible and direction-changing characters, and shortens the rest. Returns an empty string if nothing is left to see. */
export function plainName(value: string, max = MAX_NAME): string {
  const visible = value
    .slice(0, 4 * max)
    .replace(/\s+/g, ' ')
    .replace(INVISIBLE, '')
    .replace(/ +/g, ' ')
    .trim()
  if (!isVisible(visible)) return ''
  return visible.length > max ? `${visible.slice(0, max - 1)}…` : visible
}

export function escapeHtml(value: string): string {
  return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** Returns the names of an account: the one by which its owner knows it, and the address or the full name. */
export function accountName({ login, preferred_username, email, name, sub }: SignInClaims): string {
  const names = [login, preferred_username, email, name, sub].filter(
    (value): value is string => typeof value === 'string' && value !== '',
  )
  const [first = ''] = names
  const second = [email, name].find((value) => names.includes(String(value)) && value !== first)
  return second === undefined ? first : `${first} (${second})`
}
