"""The claims on a page."""

from html import escape

import polars as pl

from dphrl.report.claims import by_claim, claims_counted, measured
from dphrl.report.page_parts import card, paragraph
from dphrl.report.text import metric_name

_HEADS = {"Claim": "", "Dataset": "text", "Metric": "text", "Difference [interval]": "", "Seeds": "", "Verdict": "text"}
_WORDS = (
    "Differences are in percentage points, of counts in their own unit. A claim is decided by an interval over training"
    " seeds alone; fewer seeds than the configuration asks for are not enough data."
)


def claims_html(found: pl.DataFrame) -> str:
    """The table "claims": a group of rows for each claim, a row for each dataset; all text is escaped."""
    if found.is_empty():
        return paragraph("No methods were compared, so no claim was measured.")
    heads = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in _HEADS.items())
    groups = []
    for sentence, source, rows in by_claim(found):
        claim = f'<th scope="rowgroup" rowspan="{len(rows)}">{escape(sentence)}<small>{escape(source)}</small></th>'
        lines = [
            f'<td class="text">{escape(row["dataset"])}</td><td class="text">{escape(metric_name(row["metric"]))}</td>'
            f'<td>{escape(measured(row))}</td><td>{row["seeds"]}</td><td class="text">{escape(row["verdict"])}</td>'
            for row in rows
        ]
        groups.append(f"<tbody>{''.join(f'<tr>{claim * (not n)}{line}</tr>' for n, line in enumerate(lines))}</tbody>")
    listed = card(
        "Claims and measurements",
        f'<table class="claims"><thead><tr>{heads}</tr></thead>{"".join(groups)}</table>',
    )
    return f"{paragraph(f'Claims by dataset: {claims_counted(found)}. {_WORDS}')}{listed}"
