"""The end of a run in the terminal: main results, registered trainings, the audit, the report."""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import polars as pl
from tabulate import tabulate

from dphrl.artifacts.tables import read_table
from dphrl.config.checks import trained_on
from dphrl.evaluation.names import numbered
from dphrl.layout.methods import in_order, label
from dphrl.layout.run import Layout
from dphrl.pages.numbers import percent
from dphrl.pages.visible import visible
from dphrl.report.headline import Headline, last_steps, main_metrics, metric_name, value_text


def ending(layout: Layout, current: Collection[str]) -> str:
    """The text at the end of a run whose files `current` are up to date; empty without a report among them."""
    headline = Path(layout.path("headline"))
    page, audit = (Path(layout.root, f"{name}/index.html") for name in ("report", "audit"))
    if str(page) not in current or not (page.exists() and headline.exists()):
        return ""
    lines = [results(read_table(headline, "headline"), layout.config.evaluate.datasets)]
    lines += [f"Note: {note}" for note in trained_on(layout.config)]
    if str(audit) in current and audit.exists():
        lines.append(f"The audit: all files are as they were written, {audit.resolve()}")
    return visible("\n".join(["", *lines, f"The report, with intervals: {page.resolve()}"]))


def results(headline: pl.DataFrame, datasets: tuple[str, ...]) -> str:
    """A row per method after its last step, means over seeds: pass@k at the largest k, and diversity, of each set."""
    means = last_steps(headline).group_by("method", "dataset", "metric").agg(pl.col("value").mean())
    cells = {row[:3]: row[3] for row in means.iter_rows()}
    metrics = Headline(headline, datasets).metrics
    columns = [(dataset, metric) for dataset in datasets for metric in main_metrics(metrics[dataset])]
    head = ["", *(f"{dataset}\n{metric_name(metric)}" for dataset, metric in columns)]
    rows = [
        [label(method), *(_cell(metric, cells.get((method, dataset, metric))) for dataset, metric in columns)]
        for method in in_order(means["method"])
    ]
    return tabulate(rows, head, disable_numparse=True, stralign="right", colalign=["left"] + ["right"] * len(columns))


def _cell(metric: str, value: float | None) -> str:
    return "-" if value is None else value_text(metric, value)


# How many of the 300 ambiguous questions of world 1 each training of the second registration solves within 16 samples
# (docs/worked-example/counts.parquet).
ASKED = 300
REGISTERED = {
    "grpo": (101, 110, 111, 113, 113),
    "exp_only": (112, 112, 113, 113, 113),
    "rkl_k3": (172, 177, 214, 218, 231),
    "rkl_k2": (113, 148, 180, 180, 207),
    "replay": (113, 130, 142, 155, 181, 184, 184, 185, 195, 209),
    "fkl_all": (171, 182, 187, 209, 220),
    "dph_f": (44, 115, 143, 157, 164, 176, 179, 183, 186, 192, 192, 193, 194, 194, 197, 212),
    "dph_js": (103, 145, 145, 159, 162, 164, 165, 174, 177, 178, 180, 185, 186, 186, 191, 201),
    "dph_f_published": (97, 100, 107, 111, 112),
    "dph_js_published": (34, 112, 112, 113, 113),
}
# Ten points above a policy with one reading of the questions, which is right on 37.7 %.
KEPT = 0.477


def registered_in_words() -> str:
    """How many of the registered trainings of the DPH methods and of GRPO kept coverage."""
    kept = {name: sum(solved >= KEPT * ASKED for solved in REGISTERED[name]) for name in ("dph_f", "dph_js", "grpo")}
    number = len(REGISTERED["dph_f"])
    return (
        f"One training says little about DPH: of {number} registered trainings each (docs/worked-example), "
        f"{kept['dph_f']} of DPH-F and {kept['dph_js']} of DPH-JS ended at least ten points above one reading, and "
        f"{kept['grpo']} of {len(REGISTERED['grpo'])} of GRPO"
    )


def ambiguous(results: Path) -> str:
    """A sentence for the terminal; empty for a run without ambiguous questions in its in-domain test.

    A policy with one reading of "about" is right only for golds with that reading, at any k. This is at most the share
    of the most frequent reading. pass@k is measured after the last step, as a mean over seeds. `results` is the folder
    of a finished run.
    """
    table, questions = results / "tables/headline_levels.parquet", results / "toy/questions/in_domain.jsonl"
    rows = map(json.loads, questions.read_text(encoding="utf-8").splitlines() if questions.exists() else ())
    # An ambiguous gold ends with its radius.
    radii = Counter(row["gold_sql"].rpartition(" ")[2] for row in rows if row["level"] == "ambiguous")
    if not radii or not table.exists():
        return ""
    here = last_steps(read_table(table, "headline_levels").filter(dataset="in_domain", level="ambiguous"))
    k = max(numbered(here["metric"], "pass@"), default=0)
    means = dict(here.filter(metric=f"pass@{k}").group_by("method").agg(pl.col("value").mean()).iter_rows())
    if not means:
        return ""
    solved = ", ".join(f"{label(method)} {percent(means[method])}" for method in in_order(means))
    return (
        f"Ambiguous questions of in_domain, in per cent solved within {k} samples: {solved}. A policy with one "
        f"reading solves {percent(max(radii.values()) / radii.total())} (docs/decisions/the-world.md). "
        f"{registered_in_words()}."
    )
