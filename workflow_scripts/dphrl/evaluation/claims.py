"""The paper's claims beside what was measured. What a claim says is fixed here; whether it holds is only measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from dphrl.evaluation.keep_explore import SECOND_DRAW
from dphrl.evaluation.study import table

VERDICTS = SUPPORTED, NOT_SUPPORTED, NOT_ENOUGH = ("supported", "not supported", "not enough data")
Direction = Literal["higher", "lower"]
_SCHEMA = {
    **dict.fromkeys(("claim", "sentence", "source", "dataset", "metric", "method", "against", "kind"), pl.String),
    **dict.fromkeys(("difference", "low", "high"), pl.Float64),
    "seeds": pl.Int32,
    "verdict": pl.String,
}


@dataclass(frozen=True)
class Claim:
    """That `metric` is higher (or lower) for `method` than for `against`, in a sentence, and where it is made.

    Methods and metrics are those of `comparisons`; the metric "pass@" is pass@k of the largest k.
    """

    name: str
    method: str
    direction: Direction
    metric: str
    against: str
    source: str
    sentence: str


@dataclass(frozen=True)
class ClaimRules:
    """When a claim is decided: by the t interval over `min_seeds` trainings or more."""

    min_seeds: int = 3

    def __post_init__(self) -> None:
        if self.min_seeds < 2:
            raise ValueError(f"claims: min_seeds is {self.min_seeds}; an interval over seeds needs at least 2")


_Stated = tuple[str, Direction, str, str, str, str]
_GREEDY = "{} answers more questions right, greedily, than"
_GRPO: tuple[_Stated, ...] = (
    ("greedy", "higher", "greedy", "base", "abstract", f"{_GREEDY} the base."),
    ("passk", "lower", "pass@", "base", "abstract", "{} has a lower pass@k than the base."),
    ("keep", "lower", "keep", SECOND_DRAW, "section 6", "{} keeps less of what the base solved than the base does."),
    ("styles", "lower", "distinct_styles", "base", "appendix B", "{} shows fewer styles per question than the base."),
)
_DPH: tuple[_Stated, ...] = (
    ("greedy", "higher", "greedy", "base", "abstract", f"{_GREEDY} the base."),
    ("passk", "higher", "pass@", "base", "abstract", "{} has a higher pass@k than the base."),
    ("greedy_grpo", "higher", "greedy", "grpo", "abstract", f"{_GREEDY} GRPO."),
    ("passk_grpo", "higher", "pass@", "grpo", "abstract", "{} has a higher pass@k than GRPO."),
    ("keep_grpo", "higher", "keep", "grpo", "section 6", "{} keeps more of what the base solved than GRPO."),
    ("styles_grpo", "higher", "distinct_styles", "grpo", "appendix B", "{} shows more styles per question than GRPO."),
    ("control", "higher", "pass@", "exp_only", "control", "{} has a higher pass@k than training on D_exp alone."),
)
# That a penalty by the reverse KL does not prevent the loss of pass@k.
_RKL = _GRPO[1:2]


def _made(method: str, label: str, stated: Sequence[_Stated]) -> Iterator[Claim]:
    for name, direction, metric, against, source, sentence in stated:
        yield Claim(f"{method}_{name}", method, direction, metric, against, source, sentence.format(label))


CLAIMS: tuple[Claim, ...] = (
    *_made("grpo", "GRPO", _GRPO),
    *_made("rkl", "RKL", _RKL),
    *_made("dph_f", "DPH-F", _DPH),
    *_made("dph_js", "DPH-JS", _DPH),
)
"""What arXiv 2509.07430 claims, and the control that its explanation needs."""


def claims(comparisons: pl.DataFrame, rules: ClaimRules, stated: Sequence[Claim] = CLAIMS) -> pl.DataFrame:
    """Each claim on each dataset beside what was measured.

    The verdict is "supported" where the interval over seeds lies wholly on the claimed side of 0, "not supported" where
    it does not, and "not enough data" over fewer than `rules.min_seeds` seeds, over seeds that agree exactly, and where
    the two methods were not compared. The interval shown is then the one over prompts or, without it, over those seeds.

    Args:
        comparisons: the table of `comparisons`.
        rules: when a claim is decided.
        stated: the claims.

    Returns:
        claim, sentence, source, dataset, metric, method, against str, kind str|null (seeds or prompts, null if the
        methods were not compared), difference, low, high f64|null, seeds i32, verdict str; in the order of the claims,
        then by dataset.
    """
    rows = []
    for claim in stated:
        for (dataset,), measured in comparisons.sort("dataset").group_by("dataset", maintain_order=True):
            metric = _metric(claim.metric, measured)
            found = measured.filter(metric=metric, method=claim.method, against=claim.against)
            decided = found.filter(pl.col("seeds") >= rules.min_seeds, pl.col("low").is_not_null(), kind="seeds")
            shown = next((rows for rows in (decided, found.filter(kind="prompts")) if rows.height), found)
            numbers = ("kind", "difference", "low", "high", "seeds")
            kind, *interval, seeds = shown.select(numbers).row(0) if shown.height else (None, None, None, None, 0)
            verdict = _verdict(claim, *decided.select("low", "high").row(0)) if decided.height else NOT_ENOUGH
            named = (claim.name, claim.sentence, claim.source, dataset, metric, claim.method, claim.against)
            rows.append((*named, kind, *interval, seeds, verdict))
    return table(rows, _SCHEMA)


def _metric(name: str, measured: pl.DataFrame) -> str:
    if name != "pass@":
        return name
    found = measured.filter(pl.col("metric").str.starts_with(name))["metric"].unique()
    return max(found, key=lambda metric: int(metric.removeprefix(name)), default=name)


def _verdict(claim: Claim, low: float, high: float) -> str:
    return SUPPORTED if (low > 0 if claim.direction == "higher" else high < 0) else NOT_SUPPORTED
