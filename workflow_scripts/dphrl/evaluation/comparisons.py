"""Paired comparisons between methods on the same prompts, with corrected p values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.evaluation.bootstrap import Floats, PromptBootstrap
from dphrl.evaluation.estimator import class_counts, maj_at_k
from dphrl.evaluation.keep_explore import SECOND_DRAW, solved_pairs
from dphrl.evaluation.study import BASE, COUNTS, Study

_FAMILY = ("dataset", "metric", "kind")
_RATES = ("keep", "explore")


@dataclass
class _Measured:
    """The values of one dataset: by metric, method and seed, (prompts,) each; and by metric which prompts count."""

    bootstrap: PromptBootstrap
    values: dict[str, dict[str, dict[int, Floats]]] = field(default_factory=dict)
    weights: dict[str, Floats] = field(default_factory=dict)

    def add(self, metric: str, method: str, seed: int, value: Floats) -> None:
        self.values.setdefault(metric, {}).setdefault(method, {})[seed] = value.reshape(-1)


@dataclass(frozen=True)
class _Pair:
    """A metric of two methods: their differences on each prompt, (seeds, prompts), and which prompts count.

    `names` are those of the metric, of the method and of the method that it is compared with.
    """

    names: tuple[str, str, str]
    differences: Floats
    weight: Floats


def comparisons(study: Study) -> pl.DataFrame:
    """Differences between methods after their last step, prompt by prompt (method - against).

    Every method is compared with those of `evaluate.against`; these among themselves, each with those before it.
    Metrics: those of `headline`, maj@n and distinct_skeletons (where there are such classes), keep and explore. The
    base's keep and explore are those of its second draw (`base_second_draw`), over the same prompts.

    Kinds: `prompts`, with the mean over the seeds that both have, an interval by the paired bootstrap over prompts (or
    clusters) and a sign-flip p value: whether other prompts would show the difference too, for these trainings.
    `seeds`, from two seeds on, with the t interval and test of the differences of each seed: whether other trainings
    would, on these prompts (arXiv 2509.07430, appendix G.1). The one base is compared with every seed of a method.
    The spread of seeds that agree exactly is not known: interval and p are null.

    Returns:
        The table "comparisons". `p_holm` is Holm's correction over all comparisons of a dataset, metric and kind;
        `seeds` is the number of pairs of trainings.

    Raises:
        ValueError: the seeds of a method end at different steps, every k is larger than the number of samples,
            or as `keep_explore`.
    """
    last = study.last_steps()
    _check_steps(last)
    rows: list[tuple[object, ...]] = []
    for dataset, measured in _measure(last).items():
        if pairs := list(_pairs(measured, study.config.against)):
            rows += [(dataset, *row) for row in _over_prompts(measured.bootstrap, pairs)]
            rows += [(dataset, *row) for row in _over_seeds(pairs, study.config.bootstrap.confidence)]
    return _corrected(SCHEMAS["comparisons"].frame(rows))


def holm(p: ArrayLike) -> Floats:
    """p values of one family after Holm's correction (Holm 1979): they bound the chance of any false finding.

    Args:
        p: (tests,) in [0, 1]; NaN, which is not a test, stays NaN.

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

    The spread of values that agree exactly is not known: interval and p are NaN.
    """
    given = np.asarray(values, dtype=np.float64)
    mean, freedom = float(given.mean()), len(given) - 1
    error = float(given.std(ddof=1)) / np.sqrt(len(given))
    if error < 1e-12:
        return mean, np.nan, np.nan, np.nan
    half = float(stdtrit(freedom, 0.5 + confidence / 2.0)) * error
    return mean, mean - half, mean + half, 2.0 * float(stdtr(freedom, -abs(mean) / error))


def _measure(last: Study) -> dict[str, _Measured]:
    counted = {name: last.datasets_with(name) for name in COUNTS}
    answered = last.datasets_with("answers")
    with_skeletons = last.datasets_with("skeletons") - last.datasets_with("programs")
    found: dict[str, _Measured] = {}
    for policy in last.policies:
        method, seed, _, dataset = policy.key
        measured = found.setdefault(dataset, _Measured(policy.bootstrap))
        values = policy.proportions(last.config.k)
        values |= {name: policy.column(name) for name in COUNTS if dataset in counted[name]}
        if dataset in answered:
            values[f"maj@{policy.n}"] = maj_at_k(policy.codes("answers"), policy.samples, policy.n, last.seed)
        if dataset in with_skeletons:
            counts = class_counts(policy.codes("skeletons"), policy.samples)
            values["distinct_skeletons"] = (counts > 0).sum(axis=1).astype(np.float64)
        for metric, value in values.items():
            measured.add(metric, method, seed, value)
    for pair in solved_pairs(last):
        method, seed, _, dataset = pair.key
        for metric, group in zip(_RATES, (pair.by_base, ~pair.by_base), strict=True):
            found[dataset].weights[metric] = group.astype(np.float64)
            found[dataset].add(metric, method, seed, (group & pair.by_policy).astype(np.float64))
    return found


def _pairs(measured: _Measured, against: Sequence[str]) -> Iterator[_Pair]:
    for metric, methods in measured.values.items():
        for method in sorted(set(methods) - {BASE, SECOND_DRAW}):
            before = against[: against.index(method)] if method in against else against
            for name in before:
                other = SECOND_DRAW if name == BASE and metric in _RATES else name
                ours, theirs = methods[method], methods.get(other, {})
                if other in (BASE, SECOND_DRAW):
                    theirs = {seed: value for value in theirs.values() for seed in ours}
                differences = [ours[seed] - theirs[seed] for seed in sorted(set(ours) & set(theirs))]
                if differences:
                    weight = measured.weights.get(metric, np.ones_like(differences[0]))
                    if weight.any():
                        yield _Pair((metric, method, other), np.array(differences), weight)


def _over_prompts(bootstrap: PromptBootstrap, pairs: Sequence[_Pair]) -> Iterator[tuple[object, ...]]:
    differences = np.stack([pair.differences.mean(axis=0) for pair in pairs], axis=1)
    weights = np.stack([pair.weight for pair in pairs], axis=1)
    columns = (*bootstrap.ratio(differences, weights, proportion=False), bootstrap.sign_flip(differences))
    for pair, *numbers in zip(pairs, *columns, strict=True):
        yield (*pair.names, "prompts", *numbers, None, len(pair.differences))


def _over_seeds(pairs: Sequence[_Pair], confidence: float) -> Iterator[tuple[object, ...]]:
    for pair in pairs:
        if len(pair.differences) > 1:
            values = pair.differences.sum(axis=1) / pair.weight.sum()
            yield (*pair.names, "seeds", *t_interval(values, confidence), None, len(values))


def _corrected(found: pl.DataFrame) -> pl.DataFrame:
    """`found` with p_holm filled in, null for every number that is not known, sorted by key."""
    family = pl.col("p").map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
    corrected = found.with_columns(p_holm=family.over(_FAMILY))
    return corrected.with_columns(pl.selectors.float().fill_nan(None)).sort(SCHEMAS["comparisons"].key)


def _check_steps(last: Study) -> None:
    """Methods may differ in their number of steps, the seeds of one may not."""
    ends: dict[str, tuple[int, int]] = {}
    for method, seed, step, _ in (policy.key for policy in last.policies if policy.key.method != BASE):
        first, end = ends.setdefault(method, (seed, step))
        if step != end:
            raise ValueError(
                f"comparisons: {method} ends at step {end} with seed {first}, at step {step} with seed {seed};"
                " train the shorter one on, or give only the evaluations of the steps that both have"
            )
