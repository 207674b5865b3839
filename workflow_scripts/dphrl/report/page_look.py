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
h2 { font-size: 1.35rem; letter-spacing: -.01em; margin: 3rem 0 .75rem; scroll-margin-top: 1rem; }
p { max-width: 44rem; margin: .5rem 0; }
.lead { font-size: 1.1rem; color: var(--muted); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.4rem; padding: 0; margin: 1.1rem 0 0; }
nav a { display: inline-block; padding: .35rem 0; text-decoration: none; }
nav a:hover { text-decoration: underline; }
.notes {
  background: var(--note); border-left: 4px solid var(--note-line); border-radius: 6px;
  margin: 1.5rem 0; padding: .6rem 1.1rem;
}
.sizes { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.sizes div, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.sizes div { padding: .7rem 1rem; display: flex; flex-direction: column-reverse; }
.sizes dt { color: var(--muted); font-size: .85rem; line-height: 1.3; }
.sizes dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.35; }
.card { margin: 1rem 0 1.5rem; padding: 1rem 1.25rem; }
.scroll { overflow-x: auto; margin: 0 -1.25rem; padding: 0 1.25rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; font-size: 1.05rem; padding-bottom: .5rem; }
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
td .bar { display: block; height: .35rem; border-radius: 2px; background: var(--bar); margin: .3rem 0 0 auto; }
figure { margin: 1rem 0 0; }
figcaption { color: var(--muted); font-size: .95rem; max-width: 46rem; margin-bottom: .8rem; }
.chart {
  background: #fff; color: #20242c; color-scheme: light; border: 1px solid var(--line);
  border-radius: 10px; padding: .75rem; min-height: 6rem;
}
.chart.vega-embed.has-actions { display: block; padding: .75rem; overflow: auto hidden; }
.chart svg { display: block; max-width: none; }
.chart details { opacity: 1 !important; }
.failed { color: #a3262a; }
footer { color: var(--muted); font-size: .88rem; padding-top: 2rem; padding-bottom: 3rem; }
@media (max-width: 40rem) {
  header { padding-top: 1.75rem; }
  header, main, footer { padding-left: .9rem; padding-right: .9rem; }
  .card { padding: .8rem .9rem; }
  .scroll { margin: 0 -.9rem; padding: 0 .9rem; }
  .chart, .chart.vega-embed.has-actions { padding: .4rem; }
  th, td { padding: .4rem .5rem; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  .skip, nav, .vega-embed details { display: none; }
  body { background: #fff; }
  .card, figure { break-inside: avoid; }
}
"""
