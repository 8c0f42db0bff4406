import { html } from '../html.ts'

/** The contents of the consent page. */
export interface ConsentQuestion {
  /** The name of the client, as it registered. */
  readonly client: string
  /** The redirect URI of the client. */
  readonly redirectTo: string
  readonly resource: string | undefined
  readonly scopes: readonly string[]
  readonly user: string
}

/** Returns the page on which a user enters a name and selects the scopes of the client. It uses no script. */
export function consentPage({ client, redirectTo, resource, scopes, user }: ConsentQuestion): string {
  const boxes = scopes.map(
    (scope) => html`
    <label><input type="checkbox" name="scope" value="${scope}" checked> <code>${scope}</code></label>`,
  )
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Sign in · mcp-gatekit dev</title>
<link rel="stylesheet" href="/consent.css">
<form method="post">
  <p class="where">mcp-gatekit dev · local authorization server</p>
  <h1><strong>${client}</strong> requests access</h1>
  <dl>
    <dt>Server</dt><dd>${resource ?? 'not specified: the client sent no resource parameter'}</dd>
    <dt>Redirect to</dt><dd>${redirectTo}</dd>
  </dl>
  <label class="user">Sign in as <input name="user" value="${user}" required maxlength="64" autocomplete="off" autofocus></label>
  <fieldset>
    <legend>Allowed scopes</legend>
    ${boxes.length === 0 ? html`<p>The client requests no scopes.</p>` : boxes}
  </fieldset>
  <p class="hint">No password is required. The name becomes the <code>sub</code> claim of the token. Clear a scope to test how the client requests it later.</p>
  <div><button name="answer" value="allow">Allow</button> <button name="answer" value="refuse" formnovalidate>Deny</button></div>
</form>
</html>
`.text
}

export const CONSENT_STYLE = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; --line: #d5d9e0; --dim: #5b6472; --accent: #2257d6; --card: #fff }
@media (prefers-color-scheme: dark) { :root { --line: #343b48; --dim: #9aa5b5; --accent: #7aa2ff; --card: #171b22 } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: light-dark(#f4f5f8, #0e1116) }
form { box-sizing: border-box; width: min(30rem, 100vw); padding: 1.75rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px }
h1 { font-size: 1.25rem; font-weight: 500; margin: .25rem 0 1rem; overflow-wrap: anywhere }
.where, .hint, dt { color: var(--dim); font-size: .875rem }
.where { margin: 0 }
dl { display: grid; grid-template-columns: auto 1fr; gap: .25rem .75rem; margin: 0 0 1.25rem }
dd { margin: 0; overflow-wrap: anywhere; font-size: .875rem }
label { display: block; padding: .25rem 0 }
.user input { display: block; box-sizing: border-box; width: 100%; font: inherit; padding: .5rem .625rem; border: 1px solid var(--line); border-radius: 8px; background: transparent; color: inherit }
fieldset { border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0 0; padding: .5rem .75rem }
fieldset p { margin: 0 }
button { font: inherit; padding: .5rem 1.25rem; border-radius: 8px; border: 1px solid var(--line); background: transparent; color: inherit; cursor: pointer }
button[value=allow] { background: var(--accent); border-color: var(--accent); color: light-dark(#fff, #0e1116); font-weight: 600 }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
`
