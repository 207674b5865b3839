"""The result of a run: a sentence, and a row for each policy."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from dphrl.evaluation.diagnosis import CANNOT_TELL, COLLAPSED, NARROWED, NOT_COLLAPSED, SHARPENED, WORSE
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.report.headline import last_steps
from dphrl.report.methods import colours, in_order, label, phrase
from dphrl.text import interval, percent, points

_SAID: Final = {
    COLLAPSED: "collapsed under",
    WORSE: "fell with accuracy under",
    SHARPENED: "comes back in hotter draws of",
    NARROWED: "was kept, with less variety, under",
    NOT_COLLAPSED: "was kept under",
    CANNOT_TELL: "cannot be judged under",
}


class PolicyResult(NamedTuple):
    """The results of a method on one evaluation set, as text; "-" for what was not measured.

    Attributes:
        accuracy, solved, kept: means over trainings: right samples, questions solved with k samples, and of the
            questions that the base solves the share that the policy solves too.
        interval: of `solved`: of one training over questions; of several their range.
        word: of the diagnosis, empty without one.
        difference: `solved` less that of the base, with its interval; empty without a diagnosis.
        colour: in figures.
        trainings: how many.
    """

    method: str
    name: str
    accuracy: str
    solved: str
    interval: str
    kept: str
    word: str
    difference: str
    trainings: str
    colour: str


class Overview(NamedTuple):
    """The results of all methods on one evaluation set, at one k."""

    dataset: str
    k: int
    results: Sequence[PolicyResult]


def overview(tables: Mapping[str, pl.DataFrame], dataset: str) -> Overview:
    """The results after the last step.

    Args:
        tables: headline, passk, keep_explore and collapse.
    """
    collapse = tables["collapse"].filter(dataset=dataset)
    headline, passk, kept = (
        last_steps(tables[name].filter(dataset=dataset)) for name in ("headline", "passk", "keep_explore")
    )
    k: int = collapse["k"][0] if collapse.height else passk["k"].sort()[-1]
    metric, results = pl.col("metric"), []
    for method, colour in colours(tables["passk"]["method"]).items():
        of_method, solved, judged = (table.filter(method=method) for table in (headline, passk.filter(k=k), collapse))
        if solved.is_empty():
            continue
        single = of_method.filter(metric.str.starts_with("mean@") | (metric == "greedy"))
        accuracy = single.sort("metric", descending=True).filter(metric == metric.first())["value"]
        # The base keeps, by chance alone, what it solves in a second draw.
        keeps = kept.filter(k=k, method=BASE_ITSELF if method == BASE else method)["keep"]
        means = (shares.drop_nulls().mean() for shares in (accuracy, solved["value"], keeps))
        accurate, solves, keeping = ("-" if mean is None else percent(float(mean)) for mean in means)  # type: ignore[arg-type]
        if solved.height == 1:
            ends = interval(solved.select("low", "high").row(0), percent)
        else:
            lowest, *_, highest = solved["value"].sort()
            ends = f"{percent(lowest)} to {percent(highest)}"
        row: dict[str, Any] = judged.row(0, named=True) if judged.height else {}
        word = row.get("word", "")
        difference = f"{points(row['difference'])} {interval((row['low'], row['high']))}" if row else ""
        trainings = str(solved["seed"].n_unique()) if solved["step"].max() or solved["seed"].max() else "-"
        name = label(method)
        results.append(PolicyResult(method, name, accurate, solves, ends, keeping, word, difference, trainings, colour))
    return Overview(dataset, k, results)


def result(summary: Overview) -> str:
    """The result in a sentence or two, in the words of the diagnosis; empty where no policy was judged."""
    groups = {word: [row for row in summary.results if row.word == word] for word in _SAID}
    said = [f"{_SAID[word]} {_listed([phrase(row.method) for row in rows])}" for word, rows in groups.items() if rows]
    if not said:
        return ""
    text = f"Coverage of {summary.dataset} {'; it '.join(said)}."
    base = next((row for row in summary.results if row.method == BASE), None)
    lost = [row for row in summary.results if row.word in (COLLAPSED, WORSE, SHARPENED)]
    if base and lost:
        solved = _listed([f"{row.name} {row.solved}" for row in lost])
        text += f" With {summary.k} tries the base solves {base.solved} % of the questions, {solved}."
    return text


def what_was_run(headline: pl.DataFrame) -> str:
    """The policies and evaluation sets, in a sentence."""
    methods = in_order(headline["method"])
    return f"{_listed(list(map(label, methods)))} on {_listed(sorted(set(headline['dataset'])))}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
