"""The report as one HTML file that needs no network: words, tables, samples, and figures with the library for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl
import vl_convert
from markupsafe import Markup

from dphrl.evaluation.methods import label
from dphrl.evaluation.names import BASE
from dphrl.report.counts import FOUND, REJECTED, SHARED
from dphrl.report.figures import SECTIONS
from dphrl.report.findings import Answer
from dphrl.report.headline import Headline, how_to_read, last_steps
from dphrl.report.page_tables import claims_table, cost_table, headline_table, readable, sample_choices
from dphrl.report.render import render
from dphrl.report.shown_samples import Sample

HEADINGS = {"solved": "What is solved", "diversity": "Diversity", "course": "Training"}
"""Heading of each section of figures."""
OPENING = "passk"
"""The figure that the page opens with."""


def render_page(
    *,
    title: str,
    answers: Sequence[Answer],
    headline: pl.DataFrame,
    data: pl.DataFrame,
    costs: pl.DataFrame,
    facts: Mapping[str, str],
    sizes: Mapping[str, str],
    notes: Sequence[str],
    tables: Mapping[str, Sequence[tuple[str, str, pl.DataFrame]]],
    figures: Mapping[str, Mapping[str, Any]],
    claims: pl.DataFrame,
    samples: Sequence[Sample],
    order: Sequence[str] = (),
) -> str:
    """One self-contained page: the run, its results, figures, claims, audit and samples.

    Any text may be hostile: it is escaped. The same arguments give the same text.

    Args:
        title: heading of the page.
        answers: questions and answers, with which the page opens.
        headline: the table "headline"; the last step of each method and seed is shown.
        data: the table "datasets".
        costs: stage, part, seconds, tokens (null if none), max_rss_mib; parts that occur several times are added up.
        facts: facts of the run (base policy, evaluation sets, ...), by name.
        sizes: counts (questions, D_exp, D_pef, dropped) by the words to show.
        notes: cautions for the reader, shown before the results.
        tables: (title, caption, frame) of each further table, by the heading of its section; a frame's first column
            heads its rows; it is shown as `readable` makes it.
        figures: Vega-Lite specifications by name; the figure `OPENING` follows the answers, the others are in the
            order of `SECTIONS`. A specification's title is the heading of its figure, its description the caption.
        claims: the table "claims".
        samples: prompts with the responses to them.
        order: of the evaluation sets.

    Raises:
        ValueError: the headline is empty.
    """
    if headline.is_empty():
        raise ValueError("render_page: the headline table has no rows, so no policy was evaluated")
    final = Headline(last_steps(headline), order)
    numbered = _numbered(figures)
    opening = numbered.pop(OPENING, None)
    drawn = _figures(numbered)
    below = (list(tables), [*drawn, "Claims", "Audit"], ["Samples"] if samples else [])
    return render(
        "report.html.j2",
        title=title,
        lead=_what_was_run(final),
        answers=answers,
        headings=["Summary", *(heading for headings in below for heading in headings)],
        notes=notes,
        facts=facts,
        sizes=sizes,
        how_to_read=how_to_read(headline["metric"].unique()),
        headlines=[headline_table(final, dataset) for dataset in final.datasets],
        costs=cost_table(costs),
        tables={
            heading: [(title, caption, readable(frame)) for title, caption, frame in group]
            for heading, group in tables.items()
        },
        opening=opening,
        figures=drawn,
        claims_found=claims_table(claims),
        audit=_audit(data),
        data=data.rename(lambda name: name.replace("_", " ").capitalize()),
        samples=samples,
        sample_choices=sample_choices(samples),
        vega_embed=vega_embed() if figures else "",
    )


@cache
def vega_embed() -> Markup:
    """Vega-Embed with Vega and Vega-Lite as one script, safe inside a script element."""
    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # An HTML parser reads these as the end or a hidden part of the script; in strings the escapes mean the same.
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "\\x3c!--"))


def _what_was_run(headline: Headline) -> str:
    evaluated = f"evaluated on {_listed(headline.datasets)}."
    trained = [policy for policy in headline.policies if policy[2]]
    untrained = Counter(label(method) for method, _, step in headline.policies if not step)
    others = [f"{name} ({count} checkpoints)" if count > 1 else name for name, count in untrained.items()]
    if not trained:
        return f"{_listed(others)}, {evaluated}"
    others.remove(label(BASE))
    methods = list(dict.fromkeys(label(method) for method, _, _ in trained))
    steps = "/".join(map(str, sorted({step for _, _, step in trained})))
    seeds = len({seed for _, seed, _ in trained})
    trainings = "one training seed" if seeds == 1 else f"{seeds:,} training seeds"
    more = f", and with {_listed(others)}" if others else ""
    trained_by = f"with {trainings} and {steps} training steps"
    return f"The base model compared with {_listed(methods)}, {trained_by}{more}, {evaluated}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _numbered(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {"number": number, "name": name, "heading": spec["title"], "spec": spec}
        for number, (name, spec) in enumerate(specs.items(), start=1)
    }


def _figures(figures: Mapping[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Figures by the heading of their section; empty sections are left out."""
    sections = {
        HEADINGS[name]: [figures[figure] for figure in SECTIONS[name] if figure in figures] for name in HEADINGS
    }
    return {heading: drawn for heading, drawn in sections.items() if drawn}


def _audit(data: pl.DataFrame) -> dict[str, int]:
    """Sums over the table "datasets"."""
    summed = {"rows": ("rows",), "rejected": REJECTED, "found": FOUND, "shared": SHARED}
    return {word: sum(int(data[name].sum()) for name in names) for word, names in summed.items()}
