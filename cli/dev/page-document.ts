/** The HTML document of the console. The modules in `page/` fill it. */
export const PAGE_DOCUMENT = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title id="title">mcp-gatekit dev</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%232257d6'/%3E%3Cpath d='M4 12V7a4 4 0 0 1 8 0v5M8 3v9' fill='none' stroke='white' stroke-width='1.5'/%3E%3C/svg%3E">
<link rel="stylesheet" href="/style.css">
<script type="module" src="/page/main.js"></script>
</head>
<body data-view="clients">
<header>
  <h1><span class="mark" aria-hidden="true"></span><span id="service">mcp-gatekit dev</span></h1>
  <p class="state" role="status"><span id="connection" class="live">connecting</span></p>
  <dl class="facts">
    <div><dt>Server</dt><dd><code id="command"></code> <span id="server"></span></dd></div>
    <div><dt>MCP URL</dt><dd id="mcp"></dd></div>
    <div><dt>Authorization server</dt><dd><code id="issuer"></code></dd></div>
  </dl>
</header>
<div id="ended" class="ended" role="alert"></div>
<ul id="warnings" class="warnings" aria-label="Warnings"></ul>
<section class="tiles" aria-label="Summary">
  <div class="tile good"><span class="name">accepted</span><strong id="accepted-value">0</strong><span id="accepted-note" class="note"></span></div>
  <div class="tile" id="refused"><span class="name">refused</span><strong id="refused-value">0</strong><span id="refused-note" class="note"></span></div>
  <div class="tile" id="tools"><span class="name">tool calls</span><strong id="tools-value">0</strong><span id="tools-note" class="note"></span></div>
</section>
<main>
  <section class="panel list" aria-label="Events">
    <div class="tools">
      <div class="views" role="group" aria-label="Filter by kind">
        <button type="button" id="view-clients" aria-pressed="true">Clients</button>
        <button type="button" id="view-all" aria-pressed="false">All</button>
        <button type="button" id="view-gate" aria-pressed="false">Gate</button>
        <button type="button" id="view-tool" aria-pressed="false">Tools</button>
        <button type="button" id="view-event" aria-pressed="false">MCP events</button>
        <button type="button" id="view-problems" aria-pressed="false">Problems</button>
      </div>
      <input id="search" type="search" placeholder="Filter: word -excluded" aria-label="Filter events by words" autocomplete="off" spellcheck="false">
      <button type="button" id="pause" aria-pressed="false">Pause</button>
    </div>
    <div class="scroll" id="scroll">
      <div id="stories" role="group" aria-label="Clients, newest first"></div>
      <p id="no-stories" class="nothing" hidden>No request of a client was observed. Start the server with <code>npx mcp-gatekit dev</code>. <em>All</em> shows the events.</p>
      <ol id="events" role="listbox" aria-label="Events, newest first" tabindex="0"></ol>
      <p id="nothing" class="nothing" hidden>No event matches the filter. Press <kbd>Esc</kbd> to clear it.</p>
      <div id="welcome" class="welcome">
        <h2 id="welcome-title">Waiting for the first client</h2>
        <div id="connect"></div>
        <div id="setup"></div>
      </div>
    </div>
    <footer>
      <span id="how-many"></span>
      <span class="keys"><kbd>j</kbd> <kbd>k</kbd> move <kbd>/</kbd> filter <kbd>p</kbd> pause <kbd>Esc</kbd> close</span>
    </footer>
  </section>
  <aside>
    <section id="details" class="details" aria-label="Details of the event"></section>
    <section class="panel help" aria-label="Help">
      <p>Select an event to see all its data.</p>
      <p>Counts and lists have the events that sampling keeps. To keep all events, use <code>.withSampling({ debugRate: 1, infoRate: 1 })</code>.</p>
    </section>
  </aside>
</main>
<output id="announcer" class="unseen" aria-live="polite"></output>
</body>
</html>
`
