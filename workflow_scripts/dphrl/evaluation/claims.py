"""The verdicts on claims that were fixed before a run: supported, contradicted, equivalent or undecided."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dphrl.config.blocks.evaluation import ClaimsConfig, Relation, Role
from dphrl.evaluation.interval import LEVEL, Estimate, Part, holm, sizes_needed
from dphrl.evaluation.names import AGAINST_ITSELF, BASE, BASE_ITSELF, STYLES, UNTRAINED, average_of, numbered
from dphrl.store.catalogue import SCHEMAS

VERDICTS = SUPPORTED, CONTRADICTED, EQUIVALENT, UNDECIDED = SCHEMAS["claims"].enums["verdict"]
FEWEST_EQUIVALENT = 5
"""Trainings of each method that can be called equivalent."""
PASS = "pass@8"
# The metric of a claim, and the matching metric of an average over datasets.
_AVERAGED = {PASS: "pass@k", "greedy": "mean"}


@dataclass(frozen=True)
class Claim:
    """A claim that `method` is higher than, lower than or equal to `against` in a metric.

    Attributes:
        sentence: the claim in words.
        metric: of the table "comparisons". pass@8 means the largest k up to 8; keep@ and explore@ their only k.
        role: of the datasets. The claim is about their average if this includes the metric (the mean for greedy, the
            paper's k of each dataset for pass@8), else about each dataset. None for an endpoint of the configuration.
        source: where the claim was made.
        primary: whether Holm's correction is over this claim and the other primary claims.
        dataset, level: of an endpoint of the configuration; an empty level is all questions.
    """

    sentence: str
    method: str
    relation: Relation
    metric: str
    against: str
    role: Role | None
    source: str
    primary: bool
    dataset: str | None = None
    level: str = ""

    @property
    def name(self) -> str:
        """Unique among the claims of a run."""
        where = self.role or "_".join(part for part in (self.dataset, self.level) if part)
        metric = self.metric.rstrip("@").replace(" ", "_")
        return f"{self.method}_{self.relation}_{metric}_{self.against}_{where}"


def judged(
    claims: Sequence[Claim], comparisons: pl.DataFrame, roles: Mapping[str, str], rules: ClaimsConfig
) -> pl.DataFrame:
    """Each claim with its measurement and verdict, primary claims first; without claims about methods not compared.

    A claim of a direction is equivalent where the 90 % interval lies within the margin and methods have five seeds or
    more; else supported (contradicted) where the test finds a difference on (against) the claimed side; else
    undecided. A claim of equality is supported where the two one-sided tests find the difference within the margin,
    contradicted where the 95 % interval lies outside it, else undecided. With fewer than `rules.min_seeds` seeds, or
    where nothing varies, it is undecided. Tests of primary claims have Holm's correction. The others are exploratory:
    their tests have none.

    Args:
        comparisons: the table of this name.
        roles: of the datasets.
        rules: how claims are decided.

    Returns:
        The table "claims". `of_trainings` and `of_questions` are the parts of half of the width of the 95 % interval,
        each t times its standard error. `p_corrected` is Holm's over the primary claims.
        `detectable`, for primary or undecided claims, is the smallest difference that the test finds with 80 % power.
        `seeds_needed` (with these questions) and `questions_needed` (with these seeds), for undecided claims, make the
        margin detectable; null where no number is enough.

    Raises:
        ValueError: a primary endpoint of the configuration was not measured.
    """
    rows = []
    for claim in claims:
        measured = list(_measured(claim, comparisons, roles))
        if not measured and claim.dataset is not None:
            pair = f"{claim.method} against {claim.against} on {claim.dataset}"
            pair += f" of level {claim.level}" if claim.level else ""
            here = comparisons.filter(dataset=claim.dataset, level=claim.level)
            metrics = sorted(set(here.filter(method=claim.method, against=claim.against)["metric"]))
            raise ValueError(
                f"evaluate.claims.primary: {claim.metric} of {pair} was not measured;"
                f" measured are {', '.join(metrics) or 'no metrics of this pair there'}"
            )
        rows += measured
    rows.sort(key=lambda row: not row["primary"])
    number = sum(row["primary"] for row in rows)
    tests = np.array([_p(row, rules) for row in rows], dtype=np.float64)
    tests[:number] = holm(tests[:number])
    for row, p in zip(rows, tests.tolist(), strict=True):
        _judge(row, p, rules, LEVEL / number if row["primary"] else LEVEL)
    return SCHEMAS["claims"].frame([{name: row[name] for name in SCHEMAS["claims"].columns} for row in rows])


def _measured(claim: Claim, comparisons: pl.DataFrame, roles: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows of a claim: its name, its attributes and the numbers of the comparison."""
    # Rates on questions that the base's samples choose stand against those of the base by chance.
    by_chance = claim.against == BASE and claim.metric.startswith(AGAINST_ITSELF)
    against = BASE_ITSELF if by_chance else claim.against
    pair = comparisons.filter(level=claim.level, method=claim.method, against=against)
    members = [name for name, role in roles.items() if role == claim.role]
    average = [] if claim.role is None else [average_of(claim.role)]
    wanted = [claim.dataset] if claim.dataset is not None else members
    if not pair.filter(pl.col("dataset").is_in(average), metric=_AVERAGED.get(claim.metric, "")).is_empty():
        wanted = average
    for dataset in wanted:
        here = pair.filter(dataset=dataset)
        metric = _metric(claim.metric, here["metric"].to_list())
        for numbers in here.filter(metric=metric).iter_rows(named=True):
            yield {"claim": claim.name, **vars(claim), **numbers}


def _p(row: Mapping[str, Any], rules: ClaimsConfig) -> float | None:
    """p of the two-sided test of a direction, or the larger p of the two one-sided tests of equality."""
    if row["relation"] != "equal" or row["p"] is None:
        return row["p"]
    inside = _margin(row, rules) - abs(row["difference"])
    beyond = _estimate(row).level_of(abs(inside)) / 2.0
    return beyond if inside > 0 else 1.0 - beyond


def _estimate(row: Mapping[str, Any]) -> Estimate:
    """The estimate of a row of "comparisons"."""
    trainings, questions = (
        None if row[f"error_{of}"] is None else Part(row[f"error_{of}"], row[f"freedom_{of}"] or float("nan"))
        for of in ("trainings", "questions")
    )
    return Estimate(row["difference"], trainings, questions or Part(0.0, float("nan")))


def _margin(row: Mapping[str, Any], rules: ClaimsConfig) -> float:
    if row["metric"].startswith("accuracy_bought"):
        return rules.margin_bought
    return rules.margin_counts if row["metric"] == STYLES else rules.margin


def _metric(name: str, measured: Sequence[str]) -> str:
    """The metric of a dataset, or of an average, that a claim means."""
    if name in measured:
        return name
    start, at, most = name.partition("@")
    if name == PASS or (at and not most):
        below = [k for k in numbered(measured, f"{start}@") if not most or k <= int(most)]
        if below:
            return f"{start}@{below[-1]}"
    return _AVERAGED.get(name, name)


def _judge(row: dict[str, Any], p: float, rules: ClaimsConfig, level: float) -> None:
    """Add the verdict, the detectable difference of a primary claim, and the sizes that decide an undecided claim.

    Args:
        row: primary, relation and the columns of "comparisons".
        p: of the test, corrected for a primary claim.
        rules: how claims are decided.
        level: of the test, for the detectable difference.
    """
    margin = _margin(row, rules)
    directed = row["relation"] != "equal"
    row |= {"p_corrected": p if row["primary"] and p == p else None, "margin": margin, "verdict": UNDECIDED}
    row |= dict.fromkeys(("of_trainings", "of_questions", "detectable", "seeds_needed", "questions_needed"))
    if row["p"] is None:
        return
    estimate = _estimate(row)
    halves = (None if part is None else part.half(LEVEL) for part in (estimate.trainings, estimate.questions))
    row |= zip(("of_trainings", "of_questions"), halves, strict=True)
    seeds = [row["seeds"], *([] if row["against"] in UNTRAINED else [row["seeds_against"]])]
    if min(seeds) < rules.min_seeds:
        return
    # Two one-sided tests at LEVEL without correction ask whether this interval lies within the margin.
    inside = max(map(abs, estimate.interval(1.0 - 2.0 * LEVEL))) < margin
    low, high = estimate.interval(1.0 - LEVEL)
    # Three trainings that agree hide a fourth that does not: equivalence was false in 12 %.
    if directed and inside and min(seeds) >= FEWEST_EQUIVALENT:
        row["verdict"] = EQUIVALENT
    elif p <= LEVEL:
        claimed = not directed or (estimate.value > 0) == (row["relation"] == "higher")
        row["verdict"] = SUPPORTED if claimed else CONTRADICTED
    elif not directed and (low > margin or high < -margin):
        row["verdict"] = CONTRADICTED
    undecided = row["verdict"] == UNDECIDED
    if undecided or row["primary"]:
        row["detectable"] = estimate.detectable(level)
    if undecided:
        needed = sizes_needed(estimate, row["seeds"], row["questions"], margin, level)
        row |= zip(("seeds_needed", "questions_needed"), needed, strict=True)
