"""What each stage cost, on the page."""

from html import escape

import polars as pl

from dphrl.report.page_parts import card, paragraph


def costs_html(costs: pl.DataFrame) -> str:
    """A sentence, then the parts of each stage; parts that occur several times are added up.

    Args:
        costs: stage, part, seconds, tokens (null if none), max_rss_mib.
    """
    if costs.is_empty():
        return paragraph("No timings were recorded.")
    counted = pl.col("tokens").is_not_null()
    parts = (
        costs.group_by("stage", "part")
        .agg(
            times=pl.len(),
            seconds=pl.col("seconds").sum(),
            tokens=pl.col("tokens").sum(),
            timed=pl.col("seconds").filter(counted).sum(),
            memory=pl.col("max_rss_mib").max(),
        )
        .sort("stage", "part")
    )
    whole, longest = float(parts["seconds"].sum()), max(1e-9, *parts["seconds"])
    names = ("Times", "Seconds", "Tokens per second", "Memory, MiB")
    heads = '<th scope="col" class="text">Part</th>' + "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = []
    for stage, part, times, seconds, tokens, timed, memory in parts.iter_rows():
        speed = f"{tokens / timed:,.0f}" if timed > 0 else "-"
        # A style attribute would need a weaker security policy.
        bar = f'<svg class="bar" aria-hidden="true" width="{100 * seconds / longest:.1f}%" height="6"></svg>'
        cells = f'<td class="text">{escape(part)}</td><td>{times}</td><td>{seconds:,.1f}{bar}</td><td>{speed}</td>'
        rows.append(f'<tr><th scope="row">{escape(stage)}</th>{cells}<td>{memory:,.0f}</td></tr>')
    foot = f'<tr><th scope="row">All stages</th><td></td><td></td><td>{whole:,.1f}</td><td></td><td></td></tr>'
    head = f'<thead><tr><th scope="col">Stage</th>{heads}</tr></thead>'
    listed = card("Cost of each stage", f"<table>{head}<tbody>{''.join(rows)}</tbody><tfoot>{foot}</tfoot></table>")
    return f"<details><summary>{whole:,.0f} seconds of work, by stage</summary>\n{listed}</details>\n"
