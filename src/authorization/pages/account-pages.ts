import type { ConnectedGrant } from '../grants/grants.ts'
import type { ResolvedFacadeOptions } from '../options.ts'
import { escapeHtml, layout, plainName } from './pages.ts'

type Page = ResolvedFacadeOptions['page']

/** The contents of the page of connected applications. */
export interface AccountPageContent {
  /** The path of the page, to which its forms are sent. */
  readonly path: string
  /** The user as the provider names them. */
  readonly user: string
  /** The token that the forms send back. */
  readonly csrf: string
  readonly grants: readonly ConnectedGrant[]
  /** The descriptions of the scopes. */
  readonly scopes: Readonly<Record<string, string>>
}

/** Returns the page of the applications that have access to an account. It has no script. */
export function accountPage(page: Page, content: AccountPageContent): string {
  const { user, grants } = content
  const apps = grants.map((grant) => app(grant, content)).join('\n')
  return layout(
    page,
    `Connected applications – ${page.title}`,
    `<p class="brand"><bdi>${escapeHtml(page.title)}</bdi></p>
<h1>Connected applications</h1>
<p class="dim">You are signed in as <bdi>${escapeHtml(plainName(user))}</bdi>.</p>
${grants.length === 0 ? '<p>No application has access to your account.</p>' : `<ul class="apps">\n${apps}\n</ul>\n<p class="small">An application chose its name itself. One that you disconnect must ask for your consent again.</p>`}
${form(content, '<button type="submit" name="action" value="sign-out">Sign out of this page</button>')}`,
  )
}

/** Returns the page after a sign-out. */
export function signedOutPage(page: Page, path: string): string {
  return layout(
    page,
    `Signed out – ${page.title}`,
    `<p class="brand"><bdi>${escapeHtml(page.title)}</bdi></p>
<h1>You have signed out of this page</h1>
<p>Applications stay connected, and you may still be signed in at your identity provider.</p>
<p><a href="${escapeHtml(path)}">Sign in again</a></p>`,
  )
}

function app(grant: ConnectedGrant, content: AccountPageContent): string {
  const { id, client, createdAt, lastUsedAt } = grant
  const scopes = grant.scopes.map((scope) => content.scopes[scope] ?? scope)
  const rows = [
    ['Address', `<bdi>${escapeHtml(client.host)}</bdi>`],
    ['Can', escapeHtml(scopes.join(' · '))],
    ['Connected', day(createdAt)],
    ['Last used', day(lastUsedAt)],
  ]
  return `<li>
<h2><bdi>${escapeHtml(client.name)}</bdi></h2>
<dl>
${rows.map(([term, value]) => `<dt>${term}</dt><dd>${value}</dd>`).join('\n')}
</dl>
${form(content, `<button type="submit" name="revoke" value="${escapeHtml(id)}" aria-label="Disconnect ${escapeHtml(client.name)}">Disconnect</button>`)}
</li>`
}

function form({ path, csrf }: AccountPageContent, button: string): string {
  return `<form method="post" action="${escapeHtml(path)}">
<input type="hidden" name="csrf" value="${escapeHtml(csrf)}">
${button}
</form>`
}

function day(time: string): string {
  const text = new Date(time).toLocaleDateString('en-US', { dateStyle: 'long', timeZone: 'UTC' })
  return `<time datetime="${time}">${text}</time>`
}
