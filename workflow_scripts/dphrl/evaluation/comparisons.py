"""Paired comparisons between methods on the same prompts, with corrected p values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from dphrl.config.blocks.evaluate import BootstrapConfig
from dphrl.evaluation.bootstrap import Floats, PromptBootstrap
from dphrl.evaluation.classes import class_counts
from dphrl.evaluation.estimator import maj_at_k
from dphrl.evaluation.keep_explore import SECOND_DRAW, against_base
from dphrl.evaluation.study import BASE, datasets_with, policies, table
from dphrl.evaluation.tables import COUNTS, proportions

AGAINST = (BASE, "grpo", "exp_only")
_SCHEMA = {
    **dict.fromkeys(("dataset", "metric", "method", "against", "kind"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "p"), pl.Float64),
    "seeds": pl.Int32,
}
_KEY = ["dataset", "metric", "method", "against", "kind"]
_FAMILY = ["dataset", "metric", "kind"]
_KEPT = ("keep", "explore")


@dataclass
class _Measured:
    """What was measured on one dataset: by metric, method and seed, (prompts,) each."""

    draws: PromptBootstrap
    values: dict[str, dict[str, dict[int, Floats]]] = field(default_factory=dict)
    weights: dict[str, Floats] = field(default_factory=dict)

    def add(self, metric: str, method: str, seed: int, value: Floats) -> None:
        self.values.setdefault(metric, {}).setdefault(method, {})[seed] = value.reshape(-1)


@dataclass(frozen=True)
class _Pair:
    """A metric of two methods: their differences on each prompt, (seeds, prompts), and which prompts count."""

    names: tuple[str, str, str]
    differences: Floats
    weight: Floats


def comparisons(
    evaluations: pl.DataFrame,
    k: Sequence[int],
    bootstrap: BootstrapConfig,
    seed: int,
    against: Sequence[str] = AGAINST,
) -> pl.DataFrame:
    """Differences between methods after their last step, prompt by prompt.

    Metrics: those of `headline`, maj@n and distinct_skeletons (where `classes` gave them), keep and explore. The base's
    keep and explore are those of its second draw (`base_second_draw`), over the same prompts.

    Kinds: `prompts`, with the mean over the seeds that both have, an interval by the paired bootstrap over prompts (or
    clusters) and a sign-flip p value: it says whether other prompts would show the difference too, for these trainings.
    `seeds`, from two seeds on, with the t interval and test of the differences of each seed: it says whether other
    trainings would, on these prompts (arXiv 2509.07430, appendix G.1). A base has one seed and meets every other.
    Seeds that agree exactly tell nothing of their spread: interval and p are null.

    Args:
        evaluations: as the other tables take them.
        k: of pass@k; of each dataset the two largest up to its n are compared.
        bootstrap, seed: of the resamples.
        against: methods that the others are compared with; among themselves, each with those before it.

    Returns:
        dataset, metric, method, against, kind str, difference (method - against), low, high, p, p_holm f64, seeds i32
        (how many pairs of trainings). `p_holm` is Holm's correction over all comparisons of a dataset, metric and kind.

    Raises:
        ValueError: methods were trained for different numbers of steps, every k is larger than the number of samples,
            or as `keep_explore`.
    """
    last = evaluations.filter(pl.col("step") == pl.col("step").max().over("method", "seed"))
    _check_steps(last)
    rows = []
    for dataset, measured in _measure(last, k, bootstrap, seed).items():
        pairs = list(_pairs(measured, against))
        if pairs:
            rows += [(dataset, *row) for row in _over_prompts(measured.draws, pairs)]
            rows += [(dataset, *row) for row in _over_seeds(pairs, bootstrap.confidence)]
    found = table(rows, _SCHEMA).with_columns(pl.selectors.float().fill_nan(None))
    return _corrected(found)


def holm(p: ArrayLike) -> Floats:
    """p values of one family after Holm's correction (Holm 1979): they bound the chance of any false finding.

    Args:
        p: (tests,) in [0, 1]; NaN is no test and stays NaN.

    Returns:
        (tests,) float64, never less than `p`, at most 1.
    """
    given = np.asarray(p, dtype=np.float64)
    order = np.argsort(given)[: np.count_nonzero(~np.isnan(given))]
    corrected = np.full_like(given, np.nan)
    scaled = given[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def t_interval(values: ArrayLike, confidence: float) -> tuple[float, float, float, float]:
    """Mean of two or more values, its t interval, and the p value of the t test against 0.

    Values that agree exactly say nothing of their spread: interval and p are NaN.
    """
    given = np.asarray(values, dtype=np.float64)
    mean, freedom = float(given.mean()), len(given) - 1
    error = float(given.std(ddof=1)) / np.sqrt(len(given))
    if error < 1e-12:
        return mean, np.nan, np.nan, np.nan
    half = float(stdtrit(freedom, 0.5 + confidence / 2.0)) * error
    return mean, mean - half, mean + half, 2.0 * float(stdtr(freedom, -abs(mean) / error))


def _measure(last: pl.DataFrame, k: Sequence[int], bootstrap: BootstrapConfig, seed: int) -> dict[str, _Measured]:
    counted = {name: datasets_with(last, name) for name in (*COUNTS, "answers", "programs", "skeletons")}
    counted["skeletons"] -= counted["programs"]
    lists = [name for name in ("answers", "skeletons") if counted[name]]
    found: dict[str, _Measured] = {}
    for policy in policies(last, ["c", "correct", "greedy_correct", *COUNTS, *lists], bootstrap, seed):
        method, policy_seed, _, dataset = policy.key
        measured = found.setdefault(dataset, _Measured(policy.bootstrap))
        values = proportions(policy, k)
        values |= {name: policy.column(name) for name in COUNTS if dataset in counted[name]}
        if dataset in counted["answers"]:
            values[f"maj@{policy.n}"] = maj_at_k(policy.codes("answers"), policy.samples, policy.n, seed)
        if dataset in counted["skeletons"]:
            counts = class_counts(policy.codes("skeletons"), policy.samples)
            values["distinct_skeletons"] = (counts > 0).sum(axis=1).astype(np.float64)
        for metric, value in values.items():
            measured.add(metric, method, policy_seed, value)
    for one in against_base(last, bootstrap, seed):
        method, policy_seed, _, dataset = one.key
        for metric, group in zip(_KEPT, (one.base, ~one.base), strict=True):
            found[dataset].weights[metric] = group.astype(np.float64)
            found[dataset].add(metric, method, policy_seed, (group & one.now).astype(np.float64))
    return found


def _pairs(measured: _Measured, against: Sequence[str]) -> Iterator[_Pair]:
    for metric, methods in measured.values.items():
        for method in sorted(set(methods) - {BASE, SECOND_DRAW}):
            before = against[: against.index(method)] if method in against else against
            for name in before:
                other = SECOND_DRAW if name == BASE and metric in _KEPT else name
                own, theirs = methods[method], methods.get(other, {})
                if other in (BASE, SECOND_DRAW):
                    theirs = {seed: value for value in theirs.values() for seed in own}
                differences = [own[seed] - theirs[seed] for seed in sorted(set(own) & set(theirs))]
                if differences:
                    weight = measured.weights.get(metric, np.ones_like(differences[0]))
                    if weight.any():
                        yield _Pair((metric, method, other), np.array(differences), weight)


def _over_prompts(draws: PromptBootstrap, pairs: Sequence[_Pair]) -> Iterator[tuple[object, ...]]:
    differences = np.stack([pair.differences.mean(axis=0) for pair in pairs], axis=1)
    weights = np.stack([pair.weight for pair in pairs], axis=1)
    columns = (*draws.ratio(differences, weights, proportion=False), draws.sign_flip(differences))
    for pair, *numbers in zip(pairs, *columns, strict=True):
        yield (*pair.names, "prompts", *numbers, len(pair.differences))


def _over_seeds(pairs: Sequence[_Pair], confidence: float) -> Iterator[tuple[object, ...]]:
    for pair in pairs:
        if len(pair.differences) > 1:
            values = pair.differences.sum(axis=1) / pair.weight.sum()
            yield (*pair.names, "seeds", *t_interval(values, confidence), len(values))


def _corrected(found: pl.DataFrame) -> pl.DataFrame:
    """`found` with p_holm, sorted as `comparisons` says."""
    corrected = np.full(found.height, np.nan)
    p = found["p"].fill_null(np.nan).to_numpy()
    for _, rows in found.with_row_index("row").group_by(_FAMILY, maintain_order=True):
        family = rows["row"].to_numpy()
        corrected[family] = holm(p[family])
    columns = [*_KEY, "difference", "low", "high", "p", "p_holm", "seeds"]
    return found.with_columns(p_holm=pl.Series(corrected).fill_nan(None)).select(columns).sort(_KEY)


def _check_steps(last: pl.DataFrame) -> None:
    trained = last.filter(pl.col("method") != BASE).select("method", "seed", "step").unique().sort("step", "method")
    if trained["step"].n_unique() > 1:
        (few, _, least), (many, _, most) = trained.row(0), trained.row(-1)
        raise ValueError(
            f"comparisons: {few} ends at step {least}, {many} at step {most}; compare methods after equal steps:"
            " train the shorter one on, or give only the evaluations of the steps that both have"
        )
