"""The report as one HTML file that needs no network: the result, tables, figures, and the library that draws them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import polars as pl
import vl_convert
from markupsafe import Markup

from dphrl.evaluation.diagnosis import LOSSES, NARROWED, NOT_COLLAPSED
from dphrl.report.claims import claim_tables
from dphrl.report.figures import SECTIONS
from dphrl.report.findings import overview, result, what_was_run
from dphrl.report.headline import datasets_in_order, headline_table, last_steps
from dphrl.report.notes import limits
from dphrl.report.page_tables import (
    costs,
    data_table,
    diagnoses,
    hotter_table,
    training_table,
    variety_table,
    where_lost,
)
from dphrl.report.published import published_tables
from dphrl.report.render import render

_OPENING: Final = ("paths", "passk")
"""The page opens with the first of these figures: the frontier, where trainings were evaluated at several steps."""
_PALETTE: Final = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
"""Paul Tol's bright scheme, for stages."""


def render_page(
    *,
    run: str,
    title: str | None,
    tables: Mapping[str, pl.DataFrame],
    dataset: str,
    order: Sequence[str],
    figures: Mapping[str, Mapping[str, Any]],
    published: Sequence[Mapping[str, Any]],
    use: pl.DataFrame | None,
    timings: Mapping[str, pl.DataFrame],
    facts: Mapping[str, str],
    notes: Sequence[str],
    sampled: Sequence[str],
) -> str:
    """One self-contained page: the result of a run with its figure and a row per policy, and all else folded.

    Any text may be hostile: it is escaped. The same arguments give the same text.

    Args:
        run: name of the run.
        title: heading of the page; None: the name of the run with the question that the page answers.
        tables: headline, passk, keep_explore, collapse, hotter, rarefied, comparisons, claims and datasets.
        dataset: the evaluation set of the first screen.
        order: of the evaluation sets.
        figures: Vega-Lite specifications by name. A title is the heading of its figure, a description the caption.
        published: of `read_published`, if the run follows a setting of the paper.
        use: of `counts.training_use`; None without trainings.
        timings: by the name of a stage (`scores_of_samples`), the timings of its jobs.
        facts: facts of the run (base policy, evaluation sets, ...), by name.
        notes: cautions for the reader.
        sampled: evaluation sets that have a page of samples.
    """
    headline = tables["headline"]
    first = overview(tables, dataset)
    opening = next((name for name in _OPENING if name in figures), None)
    sets = datasets_in_order(headline, order)
    solved = [headline_table(last_steps(headline), [name]) for name in sets]
    # Of sets with the same columns the first alone explains them.
    explained = [table.caption for table in solved]
    solved = [
        table._replace(caption="") if table.caption in explained[:place] else table
        for place, table in enumerate(solved)
    ]
    printed = published_tables(published, headline, tables["passk"])
    groups = {
        "What is solved": (
            "solved",
            [
                *solved,
                *where_lost(tables["comparisons"], dataset),
                *diagnoses(tables["collapse"], sets),
                *hotter_table(tables["hotter"]),
                *printed,
            ],
        ),
        "Variety": ("diversity", variety_table(tables["rarefied"], sets)),
        "Training": ("course", training_table(use)),
        "Claims": ("", list(claim_tables(tables["claims"]))),
    }
    parts = {
        heading: {
            "figures": [name for name in SECTIONS.get(section, ()) if name in figures and name != opening],
            "tables": group,
        }
        for heading, (section, group) in groups.items()
    }
    parts = {heading: part for heading, part in parts.items() if any(part.values())}
    stages, said, doubts = costs(timings), result(first), limits(tables, dataset)
    below = [*(["Cost"] if stages else []), "Audit", *(["Samples"] if sampled else [])]
    return render(
        "report.html.j2",
        title=title or (f"{run}: did coverage collapse?" if said else f"{run}: what is solved"),
        lead=said or what_was_run(headline),
        headings=[*parts, *below],
        doubt=next(doubts, ""),
        notes=[*notes, *doubts],
        opening=opening,
        figures=figures,
        overview=first,
        losses=LOSSES,
        healthy=(NOT_COLLAPSED, NARROWED),
        parts=parts,
        costs=stages,
        palette=_PALETTE,
        facts=facts,
        data=data_table(tables["datasets"]),
        sampled=sampled,
        vega_embed=vega_embed() if figures else "",
    )


@cache
def vega_embed() -> Markup:
    """Vega-Embed with Vega and Vega-Lite as one script, safe inside a script element."""
    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # An HTML parser reads these as the end or a hidden part of the script; in strings the escapes mean the same.
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "\\x3c!--"))
