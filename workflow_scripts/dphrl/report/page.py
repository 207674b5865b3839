"""The report as one HTML file that needs no network: words, tables, samples, and figures with what draws them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import polars as pl
import vl_convert

from dphrl.report.data import FOUND, REJECTED
from dphrl.report.names import label, last_steps
from dphrl.report.page_claims import claims_html
from dphrl.report.page_costs import costs_html
from dphrl.report.page_headline import READING, headline_html
from dphrl.report.page_parts import card, document, paragraph
from dphrl.report.page_samples import samples_html
from dphrl.report.page_script import FIGURES, SAMPLES
from dphrl.report.samples import Sample
from dphrl.report.text import Headline, html

_DATA = (
    "Rows of each file that became prompts, or were rejected as duplicate, too long or malformed; prompts whose gold"
    " answer is kept, what the audit found in gold answers, and prompts that are training prompts too (exactly, or but"
    " for case and punctuation)."
)
CATEGORIES = {
    "What is solved": ("passk", "gap", "keep_explore"),
    "Diversity": ("styles", "style_counts"),
    "Training": ("training", "steps", "eta"),
}
"""Figures by the heading that they stand under; any other stands under "Further figures"."""
_AUDIT = "../audit/index.html"
_FOOTER = (
    "<p>This page holds its data and the library that draws it: it asks nothing of a network. The menu of a figure"
    " saves it as SVG or PNG.</p>\n<noscript><p>The figures and the filter of the samples need JavaScript; the folder"
    " figures of this run has them as SVG files.</p></noscript>"
)


@dataclass(frozen=True)
class Contents:
    """What the page says. All text may be hostile.

    Args:
        title: heading of the page.
        headline: method, seed, step, dataset, metric, value, low, high; the last step of each method and seed is shown.
        data: the table "datasets": what became of the rows of each dataset.
        costs: stage, part, seconds, tokens (null if none), max_rss_mib; parts that occur several times are added up.
        facts: what was run, from the name of a fact to its words.
        sizes: what was counted (questions, D_exp, D_pef, dropped), by the words to show.
        notes: what a reader must know to judge the results, shown before them.
        tables: (title, caption, frame) of each further table; a frame's first column heads its rows, and fractions
            are shown to one digit.
        figures: Vega-Lite specifications by name, shown by `CATEGORIES`; a specification's title is the heading of its
            figure, its description the caption.
        claims: the table "claims".
        samples: prompts with the responses to them.
    """

    title: str
    headline: pl.DataFrame
    data: pl.DataFrame
    costs: pl.DataFrame
    facts: Mapping[str, str]
    sizes: Mapping[str, int]
    notes: Sequence[str]
    tables: Sequence[tuple[str, str, pl.DataFrame]]
    figures: Mapping[str, Mapping[str, Any]]
    claims: pl.DataFrame
    samples: Sequence[Sample]


def render_page(contents: Contents) -> str:
    """One self-contained page: what was run and what came out, figures, claims, audit, samples.

    Text from the data is escaped. The same contents give the same text.

    Raises:
        ValueError: the headline has no rows.
    """
    if contents.headline.is_empty():
        raise ValueError("render_page: the headline table has no rows, so no policy was evaluated")
    final = Headline(last_steps(contents.headline))
    parts = {"Summary": _summary(contents, final)}
    if contents.tables:
        parts["Tables"] = "".join(_framed(*table) for table in contents.tables)
    parts |= _figures(contents)
    parts |= {"Claims": claims_html(contents.claims), "Audit": _audit(contents.data)}
    if contents.samples:
        parts["Samples"] = samples_html(contents.samples)
    scripts = [*([SAMPLES] if contents.samples else []), *([_bundle(), FIGURES] if contents.figures else [])]
    return document(contents.title, _what_was_run(final), parts, _FOOTER, scripts, _notes(contents.notes))


@cache
def _bundle() -> str:
    """Vega-Embed with Vega and Vega-Lite as one script, safe inside a script element."""
    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # An HTML parser reads these as the end or a hidden part of the script; in strings the escapes mean the same.
    return text.replace("</script", "<\\/script").replace("<!--", "\\x3c!--")


def _what_was_run(headline: Headline) -> str:
    trained = [policy for policy in headline.policies if policy[2]]
    methods = list(dict.fromkeys(label(method) for method, _, _ in trained))
    seeds = sorted({seed for _, seed, _ in trained})
    steps = sorted({step for _, _, step in trained})
    if not trained:
        given = [headline.policy_name(policy) for policy in headline.policies]
        return f"{_listed(given)}, evaluated on {_listed(headline.datasets)}."
    runs = f"{_counted(len(seeds), 'training seed')} and {'/'.join(map(str, steps))} training steps"
    return f"The base model beside {_listed(methods)}, with {runs}, evaluated on {_listed(headline.datasets)}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _counted(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number:,} {noun}s"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return f'<aside class="notes" aria-label="How to read these results">{"".join(map(paragraph, notes))}</aside>\n'


def _summary(contents: Contents, final: Headline) -> str:
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(one)}</dd></div>" for name, one in contents.facts.items())
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{size:,}</dd></div>" for name, size in contents.sizes.items())
    told = f'<dl class="facts">{facts}</dl>\n' if facts else ""
    told += f'<dl class="sizes">{cards}</dl>\n' if cards else ""
    tables = "".join(headline_html({"": final}, dataset) for dataset in final.datasets)
    return f"{told}{paragraph(READING)}{tables}<h3>What each stage cost</h3>\n{costs_html(contents.costs)}"


def _framed(title: str, caption: str, frame: pl.DataFrame) -> str:
    shown = html(frame.with_columns(pl.selectors.float().round(1).cast(pl.String)), title)
    return f'<div class="told"><h3>{escape(title)}</h3>\n{paragraph(caption)}{card(title, shown)}</div>\n'


def _figures(contents: Contents) -> dict[str, str]:
    """The markup of each category that has figures."""
    placed = {name for names in CATEGORIES.values() for name in names}
    wanted = {**CATEGORIES, "Further figures": [name for name in contents.figures if name not in placed]}
    numbers = {name: number for number, name in enumerate(contents.figures, start=1)}
    parts = {}
    for category, names in wanted.items():
        drawn = [name for name in names if name in contents.figures]
        if drawn:
            parts[category] = "".join(_figure(numbers[name], name, contents.figures[name]) for name in drawn)
    return parts


def _figure(number: int, name: str, spec: Mapping[str, Any]) -> str:
    title = spec.get("title", name)
    heading = str(title.get("text", name)) if isinstance(title, Mapping) else str(title)
    data = json.dumps(spec, sort_keys=True, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f"""<h3 id="figure-{number}">{escape(heading)}</h3>
<figure aria-labelledby="figure-{number}"><figcaption>{escape(spec["description"])}</figcaption>
<div class="chart" data-figure="{escape(name)}" data-spec="spec-{number}"></div></figure>
<script type="application/json" id="spec-{number}">{data}</script>
"""


def _audit(data: pl.DataFrame) -> str:
    rows, rejected, found, shared = (
        sum(int(data[name].sum()) for name in names)
        for names in (("rows",), REJECTED, FOUND, ("overlap_exact", "overlap_normalised"))
    )
    words = (
        f"Source rows: {rows:,}, of which {rejected:,} were rejected. Gold answers with a finding: {found:,}."
        f" Evaluation prompts that are training prompts too: {shared:,}."
    )
    link = (
        f'<p>The checks of every artifact are on <a href="{_AUDIT}">the page of the audit</a>, which is made after this'
        " one.</p>\n"
    )
    named = data.rename({name: name.replace("_", " ").capitalize() for name in data.columns})
    told = card("Rows of each dataset", html(named, "Rows of each dataset"))
    return f"{paragraph(words)}{link}<h3>What became of the data</h3>\n{paragraph(_DATA)}{told}"
