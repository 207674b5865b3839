"""Comparisons between methods on the same questions, each with one interval over trainings and questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.against_base import Solved, bases_of, solved_numerators
from dphrl.evaluation.claims import claims_of_run
from dphrl.evaluation.estimator import majority
from dphrl.evaluation.frontier import Paths
from dphrl.evaluation.interval import (
    LEVEL,
    Estimate,
    Floats,
    Part,
    Questions,
    difference,
    holm,
    over_trainings,
    permutation_p,
    training_means,
)
from dphrl.evaluation.names import (
    AGAINST_ITSELF,
    BASE,
    BASE_ITSELF,
    STRATA,
    UNTRAINED,
    average_of,
    numbered,
    published_k,
)
from dphrl.evaluation.strata import strata
from dphrl.evaluation.study import Policy, PolicyKey, Study
from dphrl.store.catalogue import SCHEMAS


@dataclass(frozen=True)
class _Metric:
    """A metric on a dataset: numerators over the weights of the questions, (questions,) by method and seed."""

    questions: Questions
    values: dict[str, dict[int, Floats]] = field(default_factory=dict)


def comparisons(study: Study) -> pl.DataFrame:
    """Differences between methods after their last step (method - against), over all seeds of each.

    Every method is compared with the methods of `evaluate.against`, and each of these with the methods before it.
    Metrics: the metrics of `headline` except constants, every pass@k, maj@n (where there are answer classes), keep@k,
    explore@k, and pass@k in each of the `strata` with a question. The last three take the largest k up to half of the
    base's samples, with base `base_itself`.
    Several datasets of one role have an average, named after the role. Its metrics are the mean, and pass@k with the
    paper's k on each dataset, or the largest k below it.

    Questions are paired. Trainings are not: those with the same seed share their draw of stage 1, and have no rollouts
    in common after the first step. `interval.difference` gives the interval. It is null where nothing varies at all.

    Returns:
        The table "comparisons". `p_holm` is Holm's correction over all comparisons of a dataset and metric.

    Raises:
        ValueError: the seeds of a method end at different steps, every k is larger than the number of samples,
            or as `keep_explore`.
    """
    last = study.last_steps()
    _check_steps(last)
    measured = _measure(last)
    rows: list[dict[str, object]] = []
    for dataset, metrics in measured.items():
        for name, metric in metrics.items():
            rows += _rows(dataset, name, [metric], study.config)
    for role, members in _by_role(measured, study.config.roles).items():
        means = [metrics[_largest(metrics, "mean@")] for metrics in members.values()]
        solved = [metrics[_largest(metrics, "pass@", published_k(name))] for name, metrics in members.items()]
        for name, averaged in (("mean", means), ("pass@k", solved)):
            rows += _rows(role, name, averaged, study.config)
    return _corrected(SCHEMAS["comparisons"].frame(rows))


def of_frontiers(study: Study, measured: Sequence[Paths]) -> pl.DataFrame:
    """Differences in the accuracy bought, with and without split draws, as "comparisons_levels"; level null for all.

    The error of questions is the standard deviation over questions drawn again, with x, y and the base's coverage
    computed again.
    """
    claimed = sorted({(claim.method, claim.against) for claim in claims_of_run(study.config.claims.primary)})
    rows: list[dict[str, object]] = []
    for found in measured:
        for metric, bought in found.bought.items():
            values = {BASE: np.zeros((1, 1)), **bought}
            for method, other in _pairs(bought, study.config.against, claimed):
                if other in values:
                    ours, theirs = values[method], values[other]
                    gaps = ours.mean(axis=0) - theirs.mean(axis=0)
                    over_questions = Part(float(gaps[1:].std(ddof=1)), found.questions.units - 1.0)
                    sides = (method, ours[:, 0]), (other, theirs[:, 0])
                    estimate = Estimate(float(gaps[0]), over_trainings(ours[:, 0], theirs[:, 0]), over_questions)
                    row = _row(found.dataset, metric, *sides, estimate, [found.questions])
                    rows.append({"level": found.level, "prompts": found.prompts, **row})
    table = SCHEMAS["comparisons_levels"].frame(rows).with_columns(p_holm=_holm.over("level", "dataset", "metric"))
    return table.with_columns(pl.selectors.float().fill_nan(None))


def _measure(last: Study) -> dict[str, dict[str, _Metric]]:
    """The metrics of each dataset by name."""
    answered = last.datasets_with("answers")
    measured: dict[str, dict[str, _Metric]] = {}

    def add(policy: Policy, key: PolicyKey, name: str, value: Floats, weight: Floats | None = None) -> None:
        questions = Questions(np.ones(policy.rows.height) if weight is None else weight, policy.clusters)
        metric = measured.setdefault(key.dataset, {}).setdefault(name, _Metric(questions))
        metric.values.setdefault(key.method, {})[key.seed] = value.reshape(-1)

    for policy in last.policies:
        k = [tries for tries in policy.up_to_n(last.config.k) if tries > 1]
        values = policy.proportions(last.config.k)
        if k:
            values |= {f"pass@{tries}": passed for tries, passed in zip(k, policy.pass_at(k).T, strict=True)}
        values |= last.varieties(policy)
        if policy.key.dataset in answered:
            values[f"maj@{policy.n}"] = majority(policy.codes("answers"), policy.samples)
        for name, value in values.items():
            add(policy, policy.key, name, value)
    bases = bases_of(last)
    for largest, solved in _solved(last):
        for rate, part, weight in (("keep", solved.both, solved.base), ("explore", solved.gained, 1.0 - solved.base)):
            if weight.any():
                add(solved.policy, solved.key, f"{rate}@{largest}", part, weight)
        base = bases[solved.key.dataset]
        for stratum, (inside, again) in strata(base, largest).items():
            if inside.sum() >= 1.0:
                passed = again if solved.policy is base else inside * solved.policy.pass_at([largest])[:, 0]
                add(solved.policy, solved.key, f"{stratum}@{largest}", passed, inside)
    return measured


def _solved(last: Study) -> Iterator[tuple[int, Solved]]:
    """The largest k at which the base of a dataset compares with itself, with the solved prompts of each policy."""
    sizes = {dataset: base.n for dataset, base in bases_of(last).items()}
    largest = {name: max((k for k in last.config.k if 2 * k <= n), default=0) for name, n in sizes.items()}
    for k in sorted(set(largest.values()) - {0}):
        yield from ((k, solved) for solved in solved_numerators(last, k) if largest[solved.key.dataset] == k)


def _by_role(
    measured: Mapping[str, dict[str, _Metric]], roles: Mapping[str, str]
) -> dict[str, dict[str, dict[str, _Metric]]]:
    """The datasets of each role with several datasets, by the name of their average."""
    by_average: dict[str, dict[str, dict[str, _Metric]]] = {}
    for dataset, metrics in measured.items():
        if dataset in roles:
            by_average.setdefault(average_of(roles[dataset]), {})[dataset] = metrics
    return {name: members for name, members in by_average.items() if len(members) > 1}


def _largest(metrics: Mapping[str, _Metric], start: str, most: float = np.inf) -> str:
    """The metric with this start and the largest number up to `most`; the smallest number where all are larger."""
    numbers = numbered(metrics, start)
    return f"{start}{max((number for number in numbers if number <= most), default=numbers[0])}"


def _rows(dataset: str, name: str, metrics: Sequence[_Metric], config: EvaluateConfig) -> Iterator[dict[str, object]]:
    """The comparisons of a metric: with the methods of `config.against`, and the pairs of claims.

    Args:
        metrics: on each dataset; of several, the mean of trainings that all share.
    """
    values: dict[str, list[Floats]] = {}
    for method in metrics[0].values:
        seeds = set.intersection(*({*metric.values.get(method, ())} for metric in metrics))
        if seeds:
            values[method] = [np.stack([metric.values[method][seed] for seed in sorted(seeds)]) for metric in metrics]
    questions = [metric.questions for metric in metrics]
    claimed = sorted({(claim.method, claim.against) for claim in claims_of_run(config.claims.primary)})
    pairs = _pairs(set(values) - {*UNTRAINED}, config.against, claimed)
    if name.startswith(AGAINST_ITSELF):
        # The base's own share by chance is on the other side.
        pairs = ((method, BASE_ITSELF if other == BASE else other) for method, other in pairs)
    for method, other in dict.fromkeys(pairs):
        if other in values:
            ours, theirs = ((side, training_means(values[side], questions)) for side in (method, other))
            yield _row(dataset, name, ours, theirs, difference(values[method], values[other], questions), questions)


def _pairs(
    methods: Iterable[str], against: Sequence[str], claimed: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Each method with those of `against`, each of these with those before it, and the pairs of `claimed`."""
    for method in sorted(methods):
        before = against[: against.index(method)] if method in against else against
        others = dict.fromkeys([*before, *(theirs for ours, theirs in claimed if ours == method)])
        yield from ((method, other) for other in others)


def _row(
    dataset: str,
    metric: str,
    ours: tuple[str, Floats],
    theirs: tuple[str, Floats],
    estimate: Estimate,
    questions: Sequence[Questions],
) -> dict[str, object]:
    """A row of the table "comparisons"; a method comes with the means of its trainings."""
    (method, means), (against, other) = ours, theirs
    low, high = estimate.interval(1.0 - LEVEL)
    if not metric.startswith("distinct_"):
        # Differences of shares.
        low, high = np.clip([low, high], -1.0, 1.0).tolist()
    trainings = estimate.trainings or Part(float("nan"), float("nan"))
    clusters = [sample.clusters for sample in questions]
    stratum = metric.partition("@")[0] in STRATA
    return {
        **{"dataset": dataset, "metric": metric, "method": method, "against": against},
        **{"difference": estimate.value, "low": low, "high": high, "p": estimate.p},
        "p_permutation": permutation_p(means, other),
        **{"seeds": len(means), "seeds_against": 0 if against in UNTRAINED else len(other)},
        "questions": sum(round(sample.expected) if stratum else sample.number for sample in questions),
        "clusters": None if None in clusters else sum(number for number in clusters if number is not None),
        **{"error_trainings": trainings.error, "freedom_trainings": trainings.freedom},
        **{"error_questions": estimate.questions.error, "freedom_questions": estimate.questions.freedom},
        "trainings": (means - other.mean()).tolist(),
    }


_holm = pl.col("p").map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)


def _corrected(table: pl.DataFrame) -> pl.DataFrame:
    """The table with p_holm filled in and null in place of NaN, sorted by key."""
    filled = table.with_columns(p_holm=_holm.over("dataset", "metric"))
    return filled.with_columns(pl.selectors.float().fill_nan(None)).sort(SCHEMAS["comparisons"].key)


def _check_steps(last: Study) -> None:
    """Methods may differ in their number of steps, the seeds of a method may not."""
    ends: dict[str, tuple[int, int]] = {}
    for method, seed, step, _ in (policy.key for policy in last.policies if policy.key.method != BASE):
        first, end = ends.setdefault(method, (seed, step))
        if step != end:
            raise ValueError(
                f"comparisons: {method} ends at step {end} with seed {first}, at step {step} with seed {seed};"
                " train the shorter one on, or give only the evaluations of the steps that both have"
            )
