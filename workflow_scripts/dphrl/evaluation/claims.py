"""The paper's claims and what was measured. The text of a claim is fixed here; whether it holds is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.blocks.evaluate import ClaimsConfig
from dphrl.evaluation.keep_explore import BASE_ITSELF

VERDICTS = SUPPORTED, NOT_SUPPORTED, NOT_ENOUGH = SCHEMAS["claims"].enums["verdict"]
Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Claim:
    """A claim that `metric` is higher (or lower) for `method` than for `against`, with its sentence and its source.

    Methods and metrics are those of `comparisons`; the metric "pass@" means pass@k of the largest k.
    """

    name: str
    method: str
    direction: Direction
    metric: str
    against: str
    source: str
    sentence: str


_Stated = tuple[str, Direction, str, str, str, str]
_GREEDY = "{} answers more questions right, greedily, than"
_GRPO: tuple[_Stated, ...] = (
    ("greedy", "higher", "greedy", "base", "abstract", f"{_GREEDY} the base."),
    ("passk", "lower", "pass@", "base", "abstract", "{} has a lower pass@k than the base."),
    ("keep", "lower", "keep", BASE_ITSELF, "section 6", "{} keeps less of what the base solved than the base does."),
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
_METHODS = {"grpo": ("GRPO", _GRPO), "rkl": ("RKL", _RKL), "dph_f": ("DPH-F", _DPH), "dph_js": ("DPH-JS", _DPH)}

CLAIMS = tuple(
    Claim(f"{method}_{name}", method, direction, metric, against, source, sentence.format(label))
    for method, (label, stated) in _METHODS.items()
    for name, direction, metric, against, source, sentence in stated
)
"""What arXiv 2509.07430 claims, and the control that its explanation needs."""


def claims(comparisons: pl.DataFrame, rules: ClaimsConfig, stated: Sequence[Claim] = CLAIMS) -> pl.DataFrame:
    """Each claim on each dataset with what was measured, in the order of the claims, then by dataset.

    The verdict is "supported" where the interval over seeds lies wholly on the claimed side of 0, "not supported" where
    it does not, and "not enough data" over fewer than `rules.min_seeds` seeds, over seeds that agree exactly, and where
    the two methods were not compared. The interval shown is then the one over prompts or, without it, over those seeds.

    Args:
        comparisons: the table "comparisons".
        rules: when a claim is decided.
        stated: the claims.

    Returns:
        The table "claims"; `kind` is null if the methods were not compared.
    """
    rows: list[tuple[object, ...]] = []
    for claim in stated:
        for (dataset,), measured in comparisons.sort("dataset").group_by("dataset", maintain_order=True):
            metric = _metric(claim.metric, measured)
            found = measured.filter(metric=metric, method=claim.method, against=claim.against)
            decided = found.filter(pl.col("seeds") >= rules.min_seeds, pl.col("low").is_not_null(), kind="seeds")
            shown = next((rows for rows in (decided, found.filter(kind="prompts")) if rows.height), found)
            numbers = ("kind", "difference", "low", "high", "seeds")
            kind, *interval, seeds = shown.select(numbers).row(0) if shown.height else (None, None, None, None, 0)
            verdict = NOT_ENOUGH
            if decided.height:
                low, high = decided.select("low", "high").row(0)
                verdict = SUPPORTED if (low > 0 if claim.direction == "higher" else high < 0) else NOT_SUPPORTED
            named = (claim.name, claim.sentence, claim.source, dataset, metric, claim.method, claim.against)
            rows.append((*named, kind, *interval, seeds, verdict))
    return SCHEMAS["claims"].frame(rows)


def _metric(name: str, measured: pl.DataFrame) -> str:
    if name != "pass@":
        return name
    found = measured.filter(pl.col("metric").str.starts_with(name))["metric"].unique()
    return max(found, key=lambda metric: int(metric.removeprefix(name)), default=name)
