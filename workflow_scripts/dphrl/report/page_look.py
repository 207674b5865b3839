"""Style sheet of the report page: one column, system fonts, light and dark."""

CSS = """
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --card: #ffffff; --ink: #1d222b; --muted: #5a6270; --line: #dfe3e8;
  --accent: #0060a8; --bar: #b9d4ea; --note: #fff8e6; --note-line: #d9a400; --stripe: #f9fafb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1c2027; --ink: #e8eaee; --muted: #a3abb8; --line: #323843;
    --accent: #7dbcf0; --bar: #2f5c80; --note: #2a2413; --note-line: #c79a1b; --stripe: #20252d;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
.skip {
  position: absolute; left: -100vw; background: var(--card); color: var(--accent);
  padding: .6rem 1rem; z-index: 10;
}
.skip:focus { left: .5rem; top: .5rem; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
header, main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 3rem; }
h1 {
  font-size: clamp(1.7rem, 5vw, 2.5rem); line-height: 1.15; letter-spacing: -.02em;
  margin: 0 0 .75rem; text-wrap: balance;
}
h2 {
  font-size: 1.5rem; letter-spacing: -.01em; margin: 3.5rem 0 .75rem; padding-top: 1rem; scroll-margin-top: 1rem;
  border-top: 1px solid var(--line);
}
h3 { font-size: 1.15rem; margin: 2rem 0 .5rem; scroll-margin-top: 1rem; }
h4 { font-size: 1rem; margin: 0 0 .4rem; }
[hidden] { display: none !important; }
summary { cursor: pointer; color: var(--accent); padding: .25rem 0; }
p { max-width: 44rem; margin: .5rem 0; }
.lead { font-size: 1.1rem; color: var(--muted); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; padding: 0; margin: 1.1rem 0 0; }
nav a { display: inline-block; padding: .35rem 0; text-decoration: none; }
nav a:hover { text-decoration: underline; }
.notes {
  background: var(--note); border-left: 4px solid var(--note-line); border-radius: 6px;
  margin: 1.5rem 0; padding: .6rem 1.1rem;
}
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .4rem 1.5rem; margin: 1rem 0;
}
.facts dt { color: var(--muted); font-size: .85rem; line-height: 1.3; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.sizes { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.sizes div, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.sizes div { padding: .7rem 1rem; display: flex; flex-direction: column-reverse; }
.sizes dt { color: var(--muted); font-size: .85rem; line-height: 1.3; }
.sizes dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.35; }
.card { margin: 1rem 0 1.5rem; padding: 1rem 1.25rem; }
.scroll { overflow-x: auto; margin: 0 -1.25rem; padding: 0 1.25rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }
/* The heading above says the same to the eye. */
.told caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td {
  padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top;
}
thead th { color: var(--muted); font-weight: 600; font-size: .85rem; vertical-align: bottom; }
tr:last-child > td, tr:last-child > th[scope=row] { border-bottom: 0; }
tfoot tr > * { border-top: 2px solid var(--line); font-weight: 600; }
tbody tr:hover > * { background: var(--stripe); }
th[scope=row], th:first-child {
  text-align: left; position: sticky; left: 0; background: var(--card); font-weight: 600;
}
th small, td small { display: block; color: var(--muted); font-weight: 400; font-size: .78rem; line-height: 1.3; }
tr.base > * { background: var(--stripe); }
td.text, th.text { text-align: left; }
td .bar { display: block; border-radius: 2px; background: var(--bar); margin: .3rem 0 0 auto; }
.claims th[scope=rowgroup] { white-space: normal; min-width: 11rem; max-width: 20rem; }
.claims tbody { border-bottom: 1px solid var(--line); }
figure { margin: 1rem 0 0; }
figcaption { color: var(--muted); font-size: .95rem; max-width: 46rem; margin-bottom: .8rem; }
.chart {
  background: #fff; color: #20242c; color-scheme: light; border: 1px solid var(--line);
  border-radius: 10px; padding: .75rem; min-height: 6rem;
}
.chart.vega-embed { position: relative; overflow: auto hidden; }
.chart svg { display: block; max-width: none; }
.chart details { position: absolute; top: .3rem; right: .3rem; }
.chart summary { list-style: none; color: #20242c; padding: .4rem; line-height: 0; }
.chart summary svg { width: 16px; height: 16px; }
.chart .vega-actions {
  position: absolute; right: 0; background: #fff; border: 1px solid #c5cad2; border-radius: 6px; padding: .3rem 0;
}
.chart .vega-actions a { display: block; padding: .3rem .9rem; color: #0060a8; white-space: nowrap; }
.failed { color: #a3262a; }
#vg-tooltip-element {
  position: fixed; visibility: hidden; z-index: 20; pointer-events: none; padding: .5rem .7rem; font-size: .8rem;
  background: #fff; color: #20242c; border: 1px solid #c5cad2; border-radius: 6px; line-height: 1.4;
}
#vg-tooltip-element.visible { visibility: visible; }
#vg-tooltip-element td, #vg-tooltip-element tr:last-child > td { border: 0; padding: 0 .3rem; background: #fff; }
#vg-tooltip-element td.key { color: #565d69; }
.filter {
  display: flex; flex-wrap: wrap; gap: .75rem 1.25rem; align-items: end; margin: 1.25rem 0; padding: .75rem 1rem;
  background: var(--paper); border: 1px solid var(--line); border-radius: 10px; position: sticky; top: 0; z-index: 5;
}
.filter label { display: block; color: var(--muted); font-size: .85rem; }
.filter select, .filter button {
  font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--muted); border-radius: 6px;
  padding: .3rem .6rem; max-width: 16rem; min-height: 2.4rem;
}
.filter output { padding: .4rem 0; font-variant-numeric: tabular-nums; }
.sample summary { scroll-margin-top: 7rem; }
.sample h3 { margin: 0; overflow-wrap: anywhere; }
.role, .reason { color: var(--muted); font-size: .85rem; margin: .3rem 0; overflow-wrap: anywhere; }
.role strong { color: var(--ink); }
.policies { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 1rem 1.25rem; }
.policy { border-top: 3px solid var(--bar); padding-top: .5rem; min-width: 0; }
.response { border-left: 4px solid var(--muted); padding-left: .7rem; margin-bottom: .9rem; }
.response.right { border-left-color: #2e9e6b; }
pre {
  font: .82rem/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; margin: .2rem 0 .6rem;
  white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; tab-size: 2;
}
footer { color: var(--muted); font-size: .88rem; padding-top: 2rem; padding-bottom: 3rem; }
@media (max-width: 40rem) {
  header { padding-top: 1.75rem; }
  header, main, footer { padding-left: .9rem; padding-right: .9rem; }
  .card { padding: .8rem .9rem; }
  .scroll { margin: 0 -.9rem; padding: 0 .9rem; }
  .chart { padding: .4rem; }
  .filter { position: static; }
  .claims th[scope=rowgroup] { position: static; }
  th small { white-space: normal; min-width: 6rem; }
  th, td { padding: .4rem .5rem; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  .skip, nav, .filter, .chart details { display: none; }
  body { background: #fff; }
  .card, figure { break-inside: avoid; }
}
"""
