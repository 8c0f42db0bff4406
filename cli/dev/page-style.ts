import { THEME } from '../html.ts'

/** The style sheet of the console, for light and dark color schemes and for narrow and wide screens. */
export const PAGE_STYLE = `:root {
${THEME}
  --raised: light-dark(#f7f8fa, #1b2029);
  --accent: light-dark(#2257d6, #84a9ff);
  --good-ground: light-dark(#e4f5ea, #11291c);
  --bad-ground: light-dark(#fdeaea, #331619);
  --warn-ground: light-dark(#fdf1de, #2f2411);
  --mono: ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'Liberation Mono', monospace;
  font: 14px/1.45 system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif;
}
* { box-sizing: border-box }
:root { --tone: var(--dim); --tone-ground: var(--raised) }
.good { --tone: var(--good); --tone-ground: var(--good-ground) }
.bad { --tone: var(--bad); --tone-ground: var(--bad-ground) }
.warn { --tone: var(--warn); --tone-ground: var(--warn-ground) }
[hidden], :is(div, p, section, ul):empty, div:has(> #mcp:empty) { display: none !important }
html { height: 100% }
body {
  margin: 0; height: 100dvh; background: var(--ground); color: var(--text);
  display: flex; flex-direction: column; gap: 12px; padding: 14px 16px;
}
h1, h2, p, dl, dd, ol, ul, pre { margin: 0; padding: 0 }
ol, ul { list-style: none }
pre { white-space: pre-wrap; overflow-wrap: anywhere }
code, pre, kbd, .ms, .time { font-family: var(--mono); font-size: .92em }
small, .dim { color: var(--dim); font-weight: 400 }
small { font-size: 12px; margin-left: 4px }
button, input { font: inherit; color: inherit }
button { cursor: pointer; border: 1px solid var(--line); border-radius: 7px; background: var(--card); padding: 4px 11px; min-height: 32px }
button:hover { border-color: var(--dim) }
button[aria-pressed=true] { background: var(--accent); border-color: var(--accent); color: light-dark(#fff, #0d1015) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }

header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 14px }
h1 { font-size: 17px; font-weight: 650; display: flex; align-items: center; gap: 9px }
.mark { width: 18px; height: 18px; border-radius: 5px; background: linear-gradient(var(--card), var(--card)) center / 2px 9px no-repeat, var(--accent) }
.live { display: inline-flex; align-items: center; gap: 6px; color: var(--good); font-size: 13px }
.live::before { content: ''; width: 8px; height: 8px; border-radius: 50%; background: currentcolor }
.live:has(.bad), :is(dd, .tile) .bad { color: var(--bad) }
.facts { display: flex; flex-wrap: wrap; gap: 2px 20px; margin-left: auto; font-size: 13px }
.facts div { display: flex; gap: 7px; min-width: 0 }
.facts dt, .facts dd > span { color: var(--dim) }
.facts dd { overflow-wrap: anywhere }

.tiles { display: grid; grid-template-columns: repeat(3, 1fr); gap: 12px }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 9px 14px; display: grid; grid-template-columns: auto 1fr; align-items: baseline; gap: 0 10px }
.tile .name { grid-column: 1 / -1; color: var(--dim); font-size: 13px }
.tile strong { font-size: 22px; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; white-space: nowrap }
.tile .note { color: var(--dim); font-size: 12.5px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.tile.good strong { color: var(--good) }

main { flex: 1; display: grid; grid-template-columns: minmax(0, 1fr) minmax(330px, 400px); gap: 12px; min-height: 0 }
.panel, .details { background: var(--card); border: 1px solid var(--line); border-radius: 10px }
aside { display: flex; flex-direction: column; gap: 12px; overflow-y: auto; min-height: 0 }
aside .panel { padding: 11px 14px }
h2 { font-size: 14px; font-weight: 650; margin-bottom: 6px }

.list { display: flex; flex-direction: column; min-height: 0; overflow: hidden }
.tools { display: flex; gap: 10px; padding: 10px; border-bottom: 1px solid var(--line) }
.views { display: flex }
.views button { border-radius: 0; margin-left: -1px }
.views button:first-child { border-radius: 7px 0 0 7px; margin-left: 0 }
.views button:last-child { border-radius: 0 7px 7px 0 }
#search { flex: 1; min-width: 90px; border: 1px solid var(--line); border-radius: 7px; background: var(--ground); padding: 4px 10px }
#search::placeholder { color: var(--dim) }
#pause { white-space: nowrap }
.scroll { flex: 1; overflow-y: auto; min-height: 0 }
.list footer { display: flex; justify-content: space-between; min-height: 32px; align-items: center; gap: 12px; padding: 6px 12px; border-top: 1px solid var(--line); color: var(--dim); font-size: 12px }
kbd { border: 1px solid var(--line); border-radius: 4px; padding: 0 4px; margin-left: 5px; background: var(--raised) }

#events:focus-visible { outline-offset: -2px }
#events:focus-visible:has([aria-selected=true]) { outline: none }
#events:focus-visible .row[aria-selected=true] { outline: 2px solid var(--accent); outline-offset: -2px }
.row, .step { display: grid; grid-template-columns: 88px 136px minmax(0, 1fr) auto; gap: 0 10px; align-items: baseline; padding: 5px 12px }
.row { border-bottom: 1px solid var(--line); border-left: 3px solid transparent; cursor: pointer; contain: content }
:is(.row, .step):hover { background: var(--raised) }
.row.bad { border-left-color: var(--bad) }
.row[aria-selected=true] { background: light-dark(#e8eefc, #1b2740); border-left-color: var(--accent) }
.time, .ms { color: var(--dim); font-size: 12px; font-variant-numeric: tabular-nums; white-space: nowrap }
.ms { text-align: right }
.chip { justify-self: start; border-radius: 5px; padding: 0 7px; font-size: 12.5px; line-height: 20px; background: var(--tone-ground); color: var(--tone); white-space: nowrap; max-width: 100%; overflow: hidden; text-overflow: ellipsis }
.sign { display: inline-block; width: 13px; font-weight: 700 }
.bad :is(.chip, .title) { font-weight: 600 }
.what { overflow-wrap: anywhere }
.about { color: var(--dim); margin-left: 8px }
.what .hint { display: block; color: var(--dim); font-size: 13px }
.hint::before { content: '→ '; color: var(--accent) }
.warnings { display: grid; gap: 4px; background: var(--warn-ground); border: 1px solid var(--warn); border-radius: 10px; padding: 8px 14px; font-size: 13px; overflow-wrap: anywhere }
.warnings li::before { content: '! '; color: var(--warn); font-weight: 700 }
.fact { display: block; font-family: var(--mono); font-size: 12px; color: var(--dim); overflow-wrap: anywhere }
[data-view=clients] :is(#events, #nothing, #how-many) { display: none }
body:not([data-view=clients]) #stories { display: none }
#stories { display: grid; gap: 10px; padding: 10px }
.story { border: 1px solid var(--line); border-radius: 9px; overflow: clip }
.story .head { display: flex; align-items: center; gap: 4px 8px; cursor: pointer; background: var(--raised); padding: 8px 12px; min-height: 38px }
.story .head::before { content: '▸'; color: var(--dim); width: 12px }
.story[open] .head::before { content: '▾' }
.story .head strong { font-weight: 650; overflow-wrap: anywhere }
.story .head .who { color: var(--dim); margin-right: auto; overflow-wrap: anywhere }
.story .head .chip { flex: none; justify-self: auto }
.step { width: 100%; text-align: left; border: 0; border-radius: 0; border-top: 1px solid var(--line); min-height: 30px; background: none }
.dropped { color: var(--dim); padding: 4px 12px; border-top: 1px solid var(--line) }
.next, .verdict { padding: 7px 12px; overflow-wrap: anywhere; background: var(--tone-ground) }
.next { border-top: 1px solid var(--line) }
:is(.next, .verdict) strong { color: var(--tone); margin-right: 4px }
.nothing { padding: 22px; color: var(--dim); text-align: center }
.welcome { max-width: 560px; margin: 9vh auto; padding: 0 22px; color: var(--dim) }
.welcome h2 { font-size: 17px; color: var(--text) }
#setup { margin-top: 18px }
.commands dt { margin-top: 10px; color: var(--text) }
.commands dd { display: flex; gap: 8px; align-items: start; justify-content: space-between; background: var(--ground); color: var(--text); border: 1px solid var(--line); border-radius: 8px; padding: 7px 7px 7px 12px }
.commands code { overflow-wrap: anywhere; align-self: center }
.copy { font-size: 12px; padding: 2px 9px; min-height: 26px }
.ended pre { max-height: 30vh; overflow-y: auto; margin-top: 6px }
.ended { background: var(--bad-ground); border: 1px solid var(--bad); border-radius: 10px; padding: 8px 14px; overflow-wrap: anywhere }
.welcome pre { background: var(--ground); color: var(--text); border: 1px solid var(--line); border-radius: 8px; padding: 11px 14px; margin: 10px 0 }

.details { position: sticky; top: 0; z-index: 1; display: flex; flex-direction: column; flex: none; max-height: min(68vh, 620px); border-color: var(--accent) }
.bar { display: flex; align-items: center; justify-content: space-between; gap: 8px; padding: 9px 9px 9px 14px; border-bottom: 1px solid var(--line) }
.bar h2 { margin: 0; font-family: var(--mono); font-size: 13px; overflow-wrap: anywhere }
.bar button { border: 0; background: none; min-width: 32px }
.body { overflow-y: auto; padding: 10px 14px }
.body > * + * { margin-top: 10px }
.verdict { border-radius: 7px }
.body dl { display: grid; grid-template-columns: minmax(90px, auto) minmax(0, 1fr); gap: 3px 12px; font-size: 13px; border-top: 1px solid var(--line); padding-top: 9px }
.body dt { color: var(--dim); overflow-wrap: anywhere }
.body dd { font-family: var(--mono); font-size: 12.5px; overflow-wrap: anywhere }
.body pre { font-size: 12px; background: var(--raised); border-radius: 7px; padding: 9px }
.actions { display: flex; flex-wrap: wrap; gap: 8px; padding: 9px 14px; border-top: 1px solid var(--line) }

p.hint { background: var(--warn-ground); border-radius: 7px; padding: 6px 10px; font-size: 12.5px; margin-top: 6px }
.help { display: grid; gap: 6px; color: var(--dim); font-size: 13px }

@media (max-width: 899px) {
  body { height: auto; min-height: 100dvh; display: block; padding: 10px }
  body > * + * { margin-top: 10px }
  .facts { margin-left: 0; flex-basis: 100%; flex-direction: column; gap: 0; font-size: 12.5px }
  .tiles { gap: 8px }
  main, aside { display: block }
  :is(main, aside) > * + * { margin-top: 10px }
  .scroll { max-height: 75dvh }
  .tools { flex-wrap: wrap }
  .views { flex: 1 }
  .views button { flex: 1; padding-inline: 4px }
  #search { order: 3; flex-basis: 100%; min-height: 38px; font-size: 16px }
  .keys { display: none }
  .details { position: fixed; inset: auto 0 0; z-index: 3; max-height: 72dvh; border-radius: 14px 14px 0 0; border-width: 2px 0 0; box-shadow: 0 -8px 30px #0006 }
  .details button { min-height: 40px }
  body:has(#details:not(:empty)) { padding-bottom: 72dvh }
}
@media (forced-colors: active) {
  .row[aria-selected=true] { outline: 2px solid Highlight; outline-offset: -2px }
}
`
