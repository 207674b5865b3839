"""Answers of a run to the questions of its reader, and its claims with their measurements."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from dphrl.evaluation.claims import FEWEST_EQUIVALENT, SUPPORTED, UNDECIDED, VERDICTS
from dphrl.evaluation.diagnosis import EXIT
from dphrl.evaluation.interval import FEWEST_CLUSTERS, LEVEL
from dphrl.evaluation.methods import BASELINES, in_order, label
from dphrl.evaluation.names import BASE, BASE_ITSELF, numbered
from dphrl.report.headline import (
    AMONG_ALL,
    NO_INTERVAL,
    difference_text,
    in_words,
    interval_text,
    markdown_table,
    value_text,
    variety_of,
)
from dphrl.text import interval, percent, points, probability


class Answer(NamedTuple):
    """A question and its answer, plain text."""

    question: str
    text: str


def title(run: str, answered: Sequence[Answer]) -> str:
    """The title of the page of a run: its question, or its content if nothing was compared."""
    return f"{run}: did diversity collapse?" if answered else f"{run}: what the base model solves"


def answers(tables: Mapping[str, pl.DataFrame], dataset: str) -> list[Answer]:
    """The answers of a run, about one evaluation set.

    The first answer uses the words of `dphrl diagnose`. In the others a value fell or rose if its 95 % interval
    excludes 0. Otherwise the text says that no difference is shown, not that there is none.

    Args:
        tables: collapse, hotter, comparisons, headline and claims.
        dataset: the set that the first answers are about.

    Returns:
        One answer per question; none without a comparison with the base.
    """
    headline, claims = tables["headline"], tables["claims"]
    here = tables["comparisons"].filter(pl.col("method") != BASE_ITSELF, dataset=dataset)
    with_base = here.filter(against=BASE)
    if with_base.is_empty():
        return []
    most = max(numbered(with_base["metric"], "pass@"), default=1)
    single = (name for name in with_base["metric"] if name.startswith("mean@"))
    coverage = f"pass@{most}" if most > 1 else next(single)
    variety = variety_of(with_base["metric"])
    if variety:
        fell = _against_base(with_base, headline, variety, f"Different {in_words(variety)} per question")
        if variety != AMONG_ALL:
            fell += " A question without a right sample counts 0; see also Diversity at equal numbers of right answers."
    elif headline.filter(pl.col("value") > 0, pl.col("metric").str.starts_with("pass@"), dataset=dataset).is_empty():
        fell = f"Not measured: no policy has a right sample on {dataset}."
    else:
        fell = (
            f"Not measured: no kinds of right answers are known on {dataset}. Style rules (evaluate.styles) show them,"
            " or a scorer that gives right answers of several kinds different classes (answer_class)."
        )
    replies = [Answer("Did coverage collapse?", _collapse(tables["collapse"].filter(dataset=dataset)))]
    if (warmer := tables["hotter"].filter(dataset=dataset)).height:
        replies.append(Answer("Does drawing hotter recover it?", _hotter(warmer)))
    replies.append(Answer("Did diversity fall?", fell))
    replies += _kept(here.filter(metric=coverage))
    rows = with_base.filter(metric=coverage)
    return [*replies, Answer("How sure is this?", _sure(rows, claims)), Answer("What is open?", _open(rows, claims))]


def _collapse(rows: pl.DataFrame) -> str:
    """The methods by their word, each with its difference of pass@k."""
    order, groups = in_order(rows["method"]), dict[str, list[str]]()
    for row in sorted(rows.iter_rows(named=True), key=lambda row: order.index(row["method"])):
        shown = f"{points(row['difference'])} {interval((row['low'], row['high']))}"
        groups.setdefault(row["word"], []).append(f"{label(row['method'])} ({shown})")
    words = "; ".join(f"{word}: {', '.join(groups[word])}" for word in EXIT if word in groups)
    k, dataset = rows.select("k", "dataset").row(0)
    return (
        f"Pass@{k} (at most half of the samples: docs/diagnose.md) less that of the base, in points, on {dataset}:"
        f" {words}. Sentences are below, under Tables."
    )


def _hotter(rows: pl.DataFrame) -> str:
    """The methods whose coverage comes back at a higher temperature, and the others."""
    order, groups = in_order(rows["method"]), dict[str, list[str]]()
    of_method = rows.unique("method", maintain_order=True).iter_rows(named=True)
    for row in sorted(of_method, key=lambda row: order.index(row["method"])):
        shown = f"{points(row['judged'])} {interval((row['judged_low'], row['judged_high']))}"
        words = "no loss is left of" if row["recovers"] else "a loss may be left of"
        groups.setdefault(words, []).append(f"{label(row['method'])} ({shown})")
    said = "; ".join(f"{words} {', '.join(methods)}" for words, methods in groups.items())
    k, dataset = rows.select("k", "dataset").row(0)
    return f"Pass@{k} at the best temperature less that of the base, in points, on {dataset}: {said}."


def _against_base(rows: pl.DataFrame, headline: pl.DataFrame, metric: str, unit: str) -> str:
    compared = rows.filter(metric=metric)
    dataset = compared["dataset"][0]
    base = headline.filter(method=BASE, dataset=dataset, metric=metric)
    value = f"; the base has {value_text(metric, base['value'][0])}" if base.height else ""
    words = ("fell under", "rose under", "no difference is shown under")
    return f"{unit}, on {dataset}: {_directions(compared, words)}{value}."


def _kept(rows: pl.DataFrame) -> Iterator[Answer]:
    """The answer about coverage next to the first baseline; nothing without a baseline."""
    baseline = next((name for name in BASELINES if name in rows["against"]), None)
    if baseline is not None:
        compared, other = rows.filter(against=baseline), label(baseline)
        words = ("lower with", "higher with", "no difference is shown with")
        text = f"{compared['metric'][0].capitalize()} less that of {other}, in points: {_directions(compared, words)}."
        yield Answer(f"Who kept more coverage than {other}?", text)


def _directions(rows: pl.DataFrame, words: tuple[str, str, str]) -> str:
    """Methods in three groups (interval below 0, above 0, or around 0), each with its difference."""
    lower, higher, neither = words
    groups: dict[str, list[str]] = {word: [] for word in words}
    order = in_order(rows["method"])
    for row in sorted(rows.iter_rows(named=True), key=lambda row: order.index(row["method"])):
        low, high = row["low"], row["high"]
        shown = lower if high is not None and high < 0 else higher if low is not None and low > 0 else None
        groups[shown or neither].append(f"{label(row['method'])} ({interval_text(row)})")
    return "; ".join(f"{word} {', '.join(methods)}" for word, methods in groups.items() if methods)


def _sure(rows: pl.DataFrame, claims: pl.DataFrame) -> str:
    fewest, most, questions = rows.select(pl.min("seeds"), pl.max("seeds").alias("most"), pl.first("questions")).row(0)
    over = f"{questions} questions"
    if most > 1:
        seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
        text = f"Intervals are 95 %, over {seeds} training seeds and {over} together, for this base and these settings."
    else:
        text = f"Intervals are 95 %, over {over}: they do not say how much another training would differ."
    primary = claims.filter("primary")
    if primary.is_empty():
        return text
    counts = ", ".join(f"{primary.filter(verdict=verdict).height} {verdict}" for verdict in VERDICTS)
    why = "" if most > 1 else " One training of each method decides none."
    return f"{text} Of {primary.height} primary claims (under Claims): {counts}.{why}"


def _open(rows: pl.DataFrame, claims: pl.DataFrame) -> str:
    return " ".join([*_limits(rows, claims), "Whether another base model behaves so: all policies start from one."])


def _limits(rows: pl.DataFrame, claims: pl.DataFrame) -> Iterator[str]:
    sizes = claims.filter(pl.col("primary"), pl.col("metric").str.starts_with("pass@"))["detectable"].drop_nulls()
    if len(sizes):
        yield f"Primary differences below {_points(sizes)} points: this run finds such a size in 80 % of cases."
    single = (rows["seeds"] < 2).sum()
    if single:
        which = "each method has" if single == rows.height else "some methods have"
        yield f"Whether another training gives the same: {which} one."
    clusters = rows["clusters"][0]
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        yield f"Whether other databases do: the questions are on {clusters}."


def _points(sizes: Sequence[float] | pl.Series) -> str:
    low, high = map(percent, (min(sizes), max(sizes)))
    return low if low == high else f"{low} to {high}"


HEADS = ("Claim", "Dataset", "Metric", "Difference [95 %]", "p", "Seeds", "Trainings", "Verdict")
_CELLS = ("sentence", "where", "metric", "measured", "chance", "seeds", "each", "decided")
_NEEDED = ("seeds_needed", "questions_needed")
_TITLES = {True: "Primary endpoints", False: "Other claims"}
_CORRECTED = {True: "Holm's", False: "Benjamini and Hochberg's"}


def claims_markdown(claims: pl.DataFrame) -> str:
    """The table "claims" as Markdown: the primary endpoints, then the other claims.

    Differences of proportions are in percentage points, others as they are.
    """
    sections = ["# Claims\n"]
    for title, note, rows in claim_tables(claims):
        cells = [[row[name] for name in _CELLS] for row in rows]
        sections.append(f"## {title}\n\n{note}\n\n{markdown_table([HEADS, *cells], 'lllrrrll')}")
    if claims.is_empty():
        sections.append("No methods were compared, so no claim was measured.\n")
    return "\n".join(sections)


def claim_tables(claims: pl.DataFrame) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Title, explanation and rows of each table of claims: primary endpoints, then other claims.

    Empty tables are left out. Each row adds texts to its columns: where, measured, chance, each and decided. The metric
    is in words.
    """
    for primary, title in _TITLES.items():
        rows = [{**row, **_texts(row)} for row in claims.filter(primary=primary).iter_rows(named=True)]
        if rows:
            counts = ", ".join(f"{sum(row['verdict'] == word for row in rows)} {word}" for word in VERDICTS)
            yield title, f"{counts}. p is {_CORRECTED[primary]} over these claims; intervals are not corrected.", rows


def _texts(row: dict[str, Any]) -> dict[str, str]:
    where = row["dataset"] if row["level"] is None else f"{row['dataset']}, {row['level']}"
    measured, chance = interval_text(row), probability(row["p_corrected"])
    if row["of_trainings"] is not None:
        trainings, questions = (value_text(row["metric"], row[part]) for part in ("of_trainings", "of_questions"))
        measured += f": {trainings} from trainings, {questions} from questions"
    if row["p_permutation"] is not None:
        chance += f" (trainings permuted, one test: {probability(row['p_permutation'])})"
    texts = {"where": where, "metric": in_words(row["metric"]), "measured": measured}
    return {**texts, "chance": chance, "each": _trainings(row), "decided": _decided(row)}


def _trainings(row: dict[str, Any]) -> str:
    """The difference of each training, and the limit of their agreement."""
    values = row["trainings"] or []
    if len(values) < 2:
        return "-"
    each = ", ".join(difference_text(row["metric"], value) for value in values)
    if len({value > 0 for value in values}) > 1:
        return each
    others = percent(1.0 - LEVEL ** (1.0 / len(values)), 0)
    return f"{each}; all agree, and {others} % of other trainings could still do otherwise"


def _decided(row: dict[str, Any]) -> str:
    """The verdict with its limits."""
    remarks = []
    size = value_text(row["metric"], row["margin"])
    if row["verdict"] == SUPPORTED and row["relation"] != "equal" and abs(row["difference"]) < row["margin"]:
        remarks.append(f"smaller than the margin of {size}")
    if row["detectable"] is not None:
        remarks.append(f"this run finds {value_text(row['metric'], row['detectable'])} in 80 % of cases")
    if row["verdict"] == UNDECIDED and row["detectable"] is None:
        remarks.append("too few seeds" if row["low"] is not None else NO_INTERVAL)
    elif row["verdict"] == UNDECIDED and row["detectable"] <= row["margin"]:
        # The run is large enough.
        if max(abs(row["low"]), abs(row["high"])) >= row["margin"]:
            remarks.append(f"the interval reaches beyond the margin of {size}")
        elif row["relation"] == "equal":
            remarks.append("the corrected test does not confirm equality")
        else:
            remarks.append(f"equivalence takes {FEWEST_EQUIVALENT} trainings of each method")
    elif row["verdict"] == UNDECIDED:
        enough = [f"{row[name]} {name.partition('_')[0]}" for name in _NEEDED if row[name] is not None]
        remarks.append(f"{size} needs {' or '.join(enough) or 'more seeds and more questions'}")
    if row["clusters"] is not None and row["clusters"] < FEWEST_CLUSTERS:
        holds = "the questions are on" if row["verdict"] == UNDECIDED else "for these"
        remarks.append(f"{holds} {row['clusters']} databases only")
    return "; ".join([row["verdict"], *remarks])
