"""The audit as one self-contained page, without a script."""

from __future__ import annotations

from html import escape

import polars as pl

from dphrl.audit.run import failed_checks, kinds_of

_STYLE = """
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #fff; --ink: #1d222b; --muted: #5a6270; --line: #dfe3e8;
  --bad: #a3262a; --good: #1d6b45; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --card: #1c2027; --ink: #e8eaee; --muted: #a3abb8;
  --line: #323843; --bad: #ff9c9f; --good: #7fd6aa; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 2.5rem 1.25rem; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 2rem; line-height: 1.15; margin: 0 0 .75rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .75rem; }
.verdict { font-size: 1.1rem; font-weight: 600; }
.bad { color: var(--bad); } .good { color: var(--good); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.25rem;
  overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--muted); font-size: .85rem; }
th:first-child, td.text { text-align: left; }
tbody tr:last-child > * { border-bottom: 0; }
code { font-size: .85rem; }
li { margin: .5rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; font-weight: 600; }
"""


def render_page(table: pl.DataFrame) -> str:
    """The page of an audit: verdict, failed checks, checks by kind, every artifact with its digests.

    Args:
        table: of the schema "audit", as `audit_run` gives it.
    """
    failed = failed_checks(table)
    counts = f"{table.height} artifacts, {table['passed'].sum() + len(failed)} checks"
    if failed:
        items = "".join(f"<li>{escape(text)}</li>" for text in failed)
        verdict = f'<p class="verdict bad">{counts}, {len(failed)} failed.</p><h2>What is wrong</h2>'
        verdict += f'<div class="card"><ul>{items}</ul></div>'
    else:
        verdict = f'<p class="verdict good">{counts}, all passed.</p>'
    kinds = "".join(
        f'<tr><th scope="row">{escape(kind)}</th><td>{count}</td><td>{passed}</td><td>{_mark(wrong)}</td></tr>'
        for kind, count, passed, wrong in kinds_of(table).rows()
    )
    rows = "".join(_row(row) for row in table.iter_rows(named=True))
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Audit</title><style>{_STYLE}</style></head>
<body>
<h1>Audit</h1>
{verdict}
<h2>Checks by kind</h2>
<div class="card"><table><thead><tr><th scope="col">Kind</th><th scope="col">Artifacts</th><th scope="col">Passed</th>\
<th scope="col">Failed</th></tr></thead><tbody>{kinds}</tbody></table></div>
<h2>Artifacts</h2>
<details class="card"{" open" if failed else ""}><summary>All {table.height}, with their digests</summary>
<table><thead><tr><th scope="col">Artifact</th><th scope="col" class="text">Schema</th><th scope="col">Rows</th>\
<th scope="col">Passed</th><th scope="col">Failed</th><th scope="col">sha256</th>\
<th scope="col">Digest</th></tr></thead>
<tbody>{rows}</tbody></table></details>
</body>
</html>
"""


def _row(row: dict[str, object]) -> str:
    failed = row["failed"]
    count = len(failed) if isinstance(failed, list) else 0
    digests = "".join(
        f'<td><code title="{escape(str(row[name]))}">{escape(str(row[name] or "-")[:12])}</code></td>'
        for name in ("sha256", "digest")
    )
    rows = "-" if row["rows"] is None else row["rows"]
    artifact, schema = escape(str(row["artifact"])), escape(str(row["schema"] or "-"))
    return (
        f'<tr><th scope="row">{artifact}</th><td class="text">{schema}</td>'
        f"<td>{rows}</td><td>{row['passed']}</td><td>{_mark(count)}</td>{digests}</tr>"
    )


def _mark(failed: int) -> str:
    return f'<span class="bad">{failed}</span>' if failed else "0"
