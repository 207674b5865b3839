"""The report as one HTML file that needs no network: words, tables and figures with the library that draws them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import polars as pl
import vl_convert

from dphrl.report.look import label, last_steps
from dphrl.report.page_look import CSS
from dphrl.report.page_script import SCRIPT
from dphrl.report.tables import Headline, metric_name

_READING = (
    "Greedy, mean and pass@k are in per cent; brackets hold the bootstrap interval over questions. Styles are counted"
    " among all samples of a question, right answers and right programs among its correct samples; counts are means per"
    " question."
)
_DATA = (
    "Rows of each file that became prompts, or were rejected as duplicate, too long or malformed; prompts whose gold"
    " answer is kept, what the audit found in gold answers, and prompts that are training prompts too (exactly, or but"
    " for case and punctuation)."
)


def render_page(
    title: str,
    headline: pl.DataFrame,
    figures: Mapping[str, Mapping[str, Any]],
    captions: Mapping[str, str],
    sizes: Mapping[str, int],
    data: pl.DataFrame,
    costs: pl.DataFrame,
    notes: Sequence[str],
) -> str:
    """One self-contained page: what was run and what came out, then the figures, then the cost of each stage.

    Text from the data is escaped. The same arguments give the same text.

    Args:
        title: heading of the page.
        headline: method, seed, step, dataset, metric, value, low, high; the last step of each method and seed is shown.
        figures: Vega-Lite specifications by name, in the order of the page; a specification's title is its heading.
        captions: a caption for each figure.
        sizes: what was counted (questions, D_exp, D_pef, dropped), by the words to show.
        data: the table "datasets": what became of the rows of each dataset.
        costs: stage, part, seconds, tokens (null if none), max_rss_mib; parts that occur several times are added up.
        notes: what a reader must know to judge the results, shown before them.

    Raises:
        ValueError: a figure without a caption, or a headline without rows.
    """
    if headline.is_empty():
        raise ValueError("render_page: the headline table has no rows, so no policy was evaluated")
    without = sorted(set(figures) - set(captions))
    if without:
        raise ValueError(f"render_page: no caption for the figures {', '.join(without)}; give one for each")
    numbered = list(enumerate(figures.items(), start=1))
    links = "".join(
        f'<li><a href="#figure-{n}">{escape(_heading(name, spec))}</a></li>' for n, (name, spec) in numbered
    )
    drawn = "".join(_figure(number, name, spec, captions[name]) for number, (name, spec) in numbered)
    final = Headline(last_steps(headline))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{escape(_what_was_run(final))}</p>
<nav aria-label="On this page"><ul><li><a href="#summary">Summary</a></li>
{links}<li><a href="#data">Data</a></li><li><a href="#costs">Costs</a></li></ul></nav>
</header>
<main id="main" tabindex="-1">
{_notes(notes)}<section aria-labelledby="summary">
<h2 id="summary">Summary</h2>
{_sizes(sizes)}<p>{escape(_READING)}</p>
{"".join(_headline(final, dataset) for dataset in final.datasets)}</section>
{drawn}<section aria-labelledby="data">
<h2 id="data">What became of the data</h2>
<p>{escape(_DATA)}</p>
{_data(data)}</section>
<section aria-labelledby="costs">
<h2 id="costs">What each stage cost</h2>
{_costs(costs)}</section>
</main>
<footer><p>This page holds its data and the library that draws it: it asks nothing of a network.
The menu of a figure saves it as SVG or PNG.</p>
<noscript><p>The figures need JavaScript; the folder figures of this run has them as SVG files.</p></noscript></footer>
<script type="module">{_bundle()}</script>
<script type="module">{SCRIPT}</script>
</body>
</html>
"""


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
    runs = f"{_counted(seeds, 'training seed')} and {'/'.join(map(str, steps))} training steps"
    return f"The base model beside {_listed(methods)}, with {runs}, evaluated on {_listed(headline.datasets)}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _counted(numbers: Sequence[int], noun: str) -> str:
    return f"one {noun}" if len(numbers) == 1 else f"{len(numbers)} {noun}s"


def _heading(name: str, spec: Mapping[str, Any]) -> str:
    given = spec.get("title", name)
    return str(given.get("text", name)) if isinstance(given, Mapping) else str(given)


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    said = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f'<aside class="notes" aria-label="How to read these results">{said}</aside>\n'


def _sizes(sizes: Mapping[str, int]) -> str:
    if not sizes:
        return ""
    cards = "".join(f"<div><dt>{escape(name)}</dt><dd>{size:,}</dd></div>" for name, size in sizes.items())
    return f'<dl class="sizes">{cards}</dl>\n'


def _headline(headline: Headline, dataset: str) -> str:
    metrics = headline.metrics(dataset)
    heads = "".join(f'<th scope="col">{escape(metric_name(metric))}</th>' for metric in metrics)
    rows = []
    for policy in headline.policies:
        method, seed, step = policy
        detail = f"<small>seed {seed}, step {step}</small>" if step else ""
        cells = []
        for metric in metrics:
            cell = headline.cell(policy, dataset, metric)
            cells.append(f"<td>{cell[0]}<small>{cell[1]}</small></td>" if cell else "<td>-</td>")
        mark = ' class="base"' if method == "base" else ""
        rows.append(f'<tr{mark}><th scope="row">{escape(label(method))}{detail}</th>{"".join(cells)}</tr>')
    caption = f"<caption>{escape(dataset)}</caption>"
    head = f'<thead><tr><th scope="col">Policy</th>{heads}</tr></thead>'
    return _table(f"Results on {dataset}", f"{caption}{head}<tbody>{''.join(rows)}</tbody>")


def _figure(number: int, name: str, spec: Mapping[str, Any], caption: str) -> str:
    data = json.dumps(spec, sort_keys=True, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return f"""<section aria-labelledby="figure-{number}">
<h2 id="figure-{number}">{escape(_heading(name, spec))}</h2>
<figure><figcaption>{escape(caption)}</figcaption>
<div class="chart" data-figure="{escape(name)}" data-spec="spec-{number}"></div></figure>
<script type="application/json" id="spec-{number}">{data}</script>
</section>
"""


def _data(data: pl.DataFrame) -> str:
    heads = "".join(f'<th scope="col">{escape(name.replace("_", " ").capitalize())}</th>' for name in data.columns)
    rows = []
    for name, *counts in data.rows():
        cells = "".join(f"<td>{count:,}</td>" for count in counts)
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return _table("Rows of each dataset", f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>")


def _costs(costs: pl.DataFrame) -> str:
    if costs.is_empty():
        return "<p>No timings were recorded.</p>\n"
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
    total = float(parts["seconds"].sum())
    longest = max(float(parts["seconds"].max() or 0.0), 1e-9)  # type: ignore[arg-type]
    names = ("Times", "Seconds", "Tokens per second", "Memory, MiB")
    heads = '<th scope="col" class="text">Part</th>' + "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = []
    for stage, part, times, seconds, tokens, timed, memory in parts.iter_rows():
        speed = f"{tokens / timed:,.0f}" if timed > 0 else "-"
        bar = f'<span class="bar" style="width:{100 * seconds / longest:.1f}%"></span>'
        cells = f'<td class="text">{escape(part)}</td><td>{times}</td><td>{seconds:,.1f}{bar}</td><td>{speed}</td>'
        rows.append(f'<tr><th scope="row">{escape(stage)}</th>{cells}<td>{memory:,.0f}</td></tr>')
    foot = f'<tr><th scope="row">All stages</th><td></td><td></td><td>{total:,.1f}</td><td></td><td></td></tr>'
    head = f'<thead><tr><th scope="col">Stage</th>{heads}</tr></thead>'
    return _table("Cost of each stage", f"{head}<tbody>{''.join(rows)}</tbody><tfoot>{foot}</tfoot>")


def _table(name: str, inner: str) -> str:
    """A table that scrolls in its own box on a narrow screen, reachable by keyboard."""
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">'
    return f'<div class="card">{box}<table>{inner}</table></div></div>\n'
