"""Comparisons between methods on the same questions, each with one interval over training seeds and questions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.against_base import Solved, bases_of, solved_numerators
from dphrl.evaluation.claims import claims_of_run
from dphrl.evaluation.crossed import Crossed, Floats, Questions, holm
from dphrl.evaluation.estimator import maj_at_k
from dphrl.evaluation.names import BASE, BASE_ITSELF, UNTRAINED, average_of, numbered, published_k
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

_RATES = ("keep@", "explore@")


@dataclass
class _Metric:
    """Numerators of a metric by method and seed, (prompts,) each, and the weights below them."""

    weight: Floats
    values: dict[str, dict[int, Floats]] = field(default_factory=dict)


@dataclass
class _Measured:
    """The metrics of one dataset by name."""

    clusters: ArrayLike | None
    metrics: dict[str, _Metric] = field(default_factory=dict)

    def add(self, metric: str, method: str, seed: int, value: Floats, weight: Floats | None = None) -> None:
        flat = value.reshape(-1)
        numerators = self.metrics.setdefault(metric, _Metric(np.ones_like(flat) if weight is None else weight))
        numerators.values.setdefault(method, {})[seed] = flat

    def named(self, start: str, most: float = np.inf) -> str:
        """The metric with this start and the largest number up to `most`; the smallest number where all are larger."""
        numbers = numbered(self.metrics, start)
        return f"{start}{max((number for number in numbers if number <= most), default=numbers[0])}"


def comparisons(study: Study) -> pl.DataFrame:
    """Differences between methods after their last step (method - against), over all seeds of each.

    Every method is compared with the methods of `evaluate.against`, and each of these with the methods before it.
    Metrics: the metrics of `headline` except constants, every pass@k, maj@n (where there are answer classes), keep@k
    and explore@k. keep@k and explore@k take the largest k up to half of the base's samples, with base `base_itself`.
    Several datasets of one role have an average, named after the role. Its metrics are the mean, and pass@k with the
    paper's k on each dataset, or the largest k below it.

    Questions are paired. Seeds are not: trainings with the same seed share their draw of stage 1, and have no rollouts
    in common after the first step.
    `Crossed` gives the interval. If no method has two seeds, it is over questions alone. It is null where nothing
    varies at all.

    Returns:
        The table "comparisons". `p_holm` is Holm's correction over all comparisons of a dataset and metric.

    Raises:
        ValueError: the seeds of a method end at different steps, every k is larger than the number of samples,
            or as `keep_explore`.
    """
    last = study.last_steps()
    _check_steps(last)
    measured, config = _measure(last), study.config
    claimed = sorted({(claim.method, claim.against) for claim in claims_of_run(config.claims.primary)})
    rows: list[dict[str, object]] = []
    for dataset, member in measured.items():
        for metric in member.metrics:
            rows += _rows(dataset, metric, _crossed([member], [metric]), config, claimed)
    for role, members in _by_role(measured, config.roles).items():
        averaged = {"mean": [member.named("mean@") for member in members.values()]}
        averaged["pass@k"] = [member.named("pass@", published_k(name)) for name, member in members.items()]
        for metric, names in averaged.items():
            rows += _rows(role, metric, _crossed(list(members.values()), names), config, claimed)
    return _corrected(SCHEMAS["comparisons"].frame(rows))


def at_equal_mean(study: Study) -> pl.DataFrame:
    """The registered comparisons of pass@k at equal mean accuracy (`evaluate.claims.primary`, key at_mean).

    Each training counts where its mean accuracy over all questions first reaches `at_mean`, with its pass@k there. Both
    are linear between evaluated steps, from the base at step 0. A training that never reaches it counts at the step
    with its highest mean.

    Returns:
        The table "comparisons_levels"; level is null for an endpoint over all questions. Its metric is
        `EndpointConfig.measured`.
    """
    rows: list[dict[str, object]] = []
    for endpoint in study.config.claims.primary:
        if endpoint.at_mean is None or not endpoint.metric.startswith("pass@"):
            continue  # the table of claims refuses a metric that was not measured
        policies = [policy for policy in study.policies if policy.key.dataset == endpoint.dataset]
        inside = np.ones(policies[0].rows.height, dtype=bool)
        if endpoint.level is not None:
            inside = policies[0].rows["level"].eq_missing(endpoint.level).to_numpy()
        paths: dict[str, dict[int, list[Policy]]] = {}
        for policy in policies[1:]:  # the base is first, steps are ascending
            paths.setdefault(policy.key.method, {}).setdefault(policy.key.seed, [policies[0]]).append(policy)
        k = int(endpoint.metric.removeprefix("pass@"))
        values = {
            method: [np.stack([_at_mean(path, inside, k, endpoint.at_mean) for path in of_method.values()])]
            for method, of_method in paths.items()
        }
        crossed = Crossed(values, [Questions(np.ones(len(inside)), policies[0].clusters)], UNTRAINED)
        if {endpoint.method, endpoint.against} <= values.keys():
            comparison = _row(
                endpoint.dataset, endpoint.measured, crossed, endpoint.method, endpoint.against, study.config
            )
            rows.append({"level": endpoint.level, "prompts": int(inside.sum()), **comparison})
    family = pl.col("p").map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
    table = SCHEMAS["comparisons_levels"].frame(rows).unique(maintain_order=True)
    table = table.with_columns(p_holm=family.over("level", "dataset", "metric"))
    return table.with_columns(pl.selectors.float().fill_nan(None))


def _at_mean(path: Sequence[Policy], inside: NDArray[np.bool_], k: int, target: float) -> Floats:
    """pass@k at equal accuracy as (questions,) values, whose mean is the estimate and whose spread gives its error.

    The estimate is pass@k over the questions `inside` at the place of the path where accuracy over all questions is
    `target`. The spread is by the delta method: a question moves pass@k, and it moves the place on the line between two
    steps.

    Args:
        path: the base, then the steps of a training.
    """
    right = np.stack([policy.column("c")[:, 0] / policy.sizes for policy in path])
    solved = np.stack([policy.pass_at([k])[:, 0] for policy in path])
    means, covered = right.mean(axis=1), solved[:, inside].mean(axis=1)
    reached = np.flatnonzero(means >= target)
    if not len(reached) or not reached[0]:
        end = int(reached[0]) if len(reached) else 1 + int(means[1:].argmax())
        at, slope = np.eye(len(path))[end], 0.0
    else:
        end = int(reached[0])
        share = (target - means[end - 1]) / (means[end] - means[end - 1])
        at = (1.0 - share) * np.eye(len(path))[end - 1] + share * np.eye(len(path))[end]
        slope = (covered[end] - covered[end - 1]) / (means[end] - means[end - 1])
    value = float(at @ covered)
    on_line = inside / inside.mean() * (at @ solved - value) - slope * (at @ right - at @ means)
    return np.asarray(value + on_line)


def _measure(last: Study) -> dict[str, _Measured]:
    answered = last.datasets_with("answers")
    by_dataset: dict[str, _Measured] = {}
    for policy in last.policies:
        method, seed, _, dataset = policy.key
        measured = by_dataset.setdefault(dataset, _Measured(policy.clusters))
        k = [tries for tries in policy.up_to_n(last.config.k) if tries > 1]
        values = policy.proportions(last.config.k)
        if k:
            values |= {f"pass@{tries}": passed for tries, passed in zip(k, policy.pass_at(k).T, strict=True)}
        values |= last.varieties(policy)
        if dataset in answered:
            values[f"maj@{policy.n}"] = maj_at_k(policy.codes("answers"), policy.samples, policy.n, last.seed)
        for metric, value in values.items():
            measured.add(metric, method, seed, value)
    for largest, solved in _solved(last):
        method, seed, _, dataset = solved.key
        for rate, part, weight in (("keep", solved.both, solved.base), ("explore", solved.gained, 1.0 - solved.base)):
            if weight.any():
                by_dataset[dataset].add(f"{rate}@{largest}", method, seed, part, weight)
    return by_dataset


def _solved(last: Study) -> Iterator[tuple[int, Solved]]:
    """The largest k at which the base of a dataset compares with itself, with the solved prompts of each policy."""
    sizes = {dataset: base.n for dataset, base in bases_of(last).items()}
    largest = {name: max((k for k in last.config.k if 2 * k <= n), default=0) for name, n in sizes.items()}
    for k in sorted(set(largest.values()) - {0}):
        yield from ((k, solved) for solved in solved_numerators(last, k) if largest[solved.key.dataset] == k)


def _by_role(measured: Mapping[str, _Measured], roles: Mapping[str, str]) -> dict[str, dict[str, _Measured]]:
    """The datasets of each role with several datasets, by the name of their average."""
    by_average: dict[str, dict[str, _Measured]] = {}
    for dataset, member in measured.items():
        if dataset in roles:
            by_average.setdefault(average_of(roles[dataset]), {})[dataset] = member
    return {name: members for name, members in by_average.items() if len(members) > 1}


def _crossed(members: Sequence[_Measured], names: Sequence[str]) -> Crossed:
    """A metric over datasets, named as in `names` on each, of the trainings that all datasets share."""
    metrics = [member.metrics[name] for member, name in zip(members, names, strict=True)]
    values: dict[str, list[Floats]] = {}
    for method in metrics[0].values:
        seeds = set.intersection(*({*metric.values.get(method, ())} for metric in metrics))
        if seeds:
            values[method] = [np.stack([metric.values[method][seed] for seed in sorted(seeds)]) for metric in metrics]
    questions = [Questions(metric.weight, member.clusters) for member, metric in zip(members, metrics, strict=True)]
    return Crossed(values, questions, UNTRAINED)


def _rows(
    dataset: str, metric: str, crossed: Crossed, config: EvaluateConfig, claimed: Sequence[tuple[str, str]]
) -> Iterator[dict[str, object]]:
    """The comparisons of a metric: with the methods of `config.against`, and the pairs method, against of `claimed`."""
    against = config.against
    for method in sorted(set(crossed.methods) - {*UNTRAINED}):
        before = against[: against.index(method)] if method in against else against
        others = dict.fromkeys([*before, *(theirs for ours, theirs in claimed if ours == method)])
        if metric.startswith(_RATES):
            others = dict.fromkeys(BASE_ITSELF if name == BASE else name for name in others)
        for other in others:
            if other in crossed.methods:
                yield _row(dataset, metric, crossed, method, other, config)


def _row(
    dataset: str, metric: str, crossed: Crossed, method: str, other: str, config: EvaluateConfig
) -> dict[str, object]:
    difference = crossed.difference(method, other)
    low, high = difference.interval(config.bootstrap.confidence)
    if not metric.startswith("distinct_"):
        # Differences of shares.
        low, high = np.clip([low, high], -1.0, 1.0).tolist()
    return {
        **{"dataset": dataset, "metric": metric, "method": method, "against": other},
        **{"difference": difference.value, "low": low, "high": high},
        **{"error": difference.error, "freedom": difference.freedom, "p": difference.p},
        **{"seeds": difference.seeds[0], "seeds_against": difference.seeds[1]},
        **{"questions": crossed.number, "clusters": crossed.clusters},
        **{"of_seeds": difference.of_seeds, "of_questions": difference.of_questions, "of_both": difference.of_both},
        "trainings": crossed.trainings(method, other),
    }


def _corrected(table: pl.DataFrame) -> pl.DataFrame:
    """The table with p_holm filled in and null in place of NaN, sorted by key."""
    family = pl.col("p").map_batches(lambda p: pl.Series(holm(p.to_numpy())), return_dtype=pl.Float64)
    filled = table.with_columns(p_holm=family.over("dataset", "metric"))
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
