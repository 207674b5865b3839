"""Comparisons between methods on the same questions, each with one interval over trainings and questions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from dphrl.evaluation.against_base import bases_of, solved_at, strata
from dphrl.evaluation.claims import Claim
from dphrl.evaluation.estimator import majority
from dphrl.evaluation.frontier import BOUGHT, BOUGHT_SPLIT, Paths
from dphrl.evaluation.interval import (
    LEVEL,
    Estimate,
    Floats,
    Part,
    Questions,
    difference,
    of_draws,
    permutation_p,
    training_means,
)
from dphrl.evaluation.names import (
    AGAINST_ITSELF,
    BASE,
    BASE_ITSELF,
    STRATA,
    STYLES,
    UNTRAINED,
    average_of,
    numbered,
)
from dphrl.evaluation.study import Policy, PolicyKey, Study
from dphrl.store.catalogue import SCHEMAS

# The k of the paper's pass@k on a dataset, if it is not 8.
_PUBLISHED_K = {"aime24": 64, "aime25": 64, "amc23": 16}


@dataclass(frozen=True)
class _Metric:
    """A metric on a dataset: numerators over the weights of the questions, (questions,) by method and seed."""

    questions: Questions
    values: dict[str, dict[int, Floats]] = field(default_factory=dict)


def comparisons(study: Study, followed: Sequence[Paths] = ()) -> pl.DataFrame:
    """Differences between methods after their last step (method - against), over all seeds of each, and by level.

    Every method is compared with the methods of `evaluate.against`, each of these with the methods before it, and the
    pairs of claims. Metrics: the metrics of `headline` except constants, every pass@k, maj@n (where there are answer
    classes), the accuracy bought of `followed`, keep@k, explore@k, and pass@k in each of the `strata` with a question.
    The last three take the largest k up to half of the base's samples, with base `base_itself`. Several datasets of one
    role have an average, named after the role. Its metrics are the mean, and pass@k with the paper's k on each dataset,
    or the largest k below it.

    Questions are paired. Trainings are not: those with the same seed share their draw of stage 1, and have no rollouts
    in common after the first step. `interval.difference` gives the interval. It is null where nothing varies at all.

    Returns:
        The table "comparisons"; `level` is empty for all questions.

    Raises:
        ValueError: every k is larger than the number of samples, or a dataset has no evaluation of the base.
    """
    last = study.last_steps()
    rows = [*_bought(study, followed)]
    for level, part in [("", last), *last.levels]:
        by_role = defaultdict[str, dict[str, dict[str, _Metric]]](dict)
        for dataset, metrics in _measure(part).items():
            for name, metric in metrics.items():
                rows += _rows(level, dataset, name, [metric], part)
            if dataset in part.config.roles:
                by_role[part.config.roles[dataset]][dataset] = metrics
        for role, members in by_role.items():
            if len(members) > 1:
                means = [metrics[_largest(metrics, "mean@")] for metrics in members.values()]
                solved = [
                    metrics[_largest(metrics, "pass@", _PUBLISHED_K.get(name, 8))] for name, metrics in members.items()
                ]
                rows += _rows(level, average_of(role), "mean", means, part)
                rows += _rows(level, average_of(role), "pass@k", solved, part)
    schema = SCHEMAS["comparisons"]
    return schema.frame(rows).with_columns(pl.selectors.float().fill_nan(None)).sort(schema.key)


def _bought(study: Study, followed: Sequence[Paths]) -> Iterator[dict[str, object]]:
    """Differences in the accuracy bought, with and without split draws.

    The error of questions is the standard deviation over questions drawn again, with x, y and the base's coverage
    computed again.
    """
    for frontier in followed:
        for metric in (BOUGHT, BOUGHT_SPLIT):
            bought = frontier.bought(metric)
            values = {BASE: np.zeros((1, 1)), **bought}
            for method, other in _pairs(bought, study.config.against, study.claims):
                if other in values:
                    ours, theirs = values[method], values[other]
                    sides = (method, ours[:, 0]), (other, theirs[:, 0])
                    estimate = of_draws(ours, theirs, frontier.questions)
                    yield _row(frontier.level, frontier.dataset, metric, *sides, estimate, [frontier.questions])


def _measure(last: Study) -> dict[str, dict[str, _Metric]]:
    """The metrics of each dataset by name."""
    answered, styled = last.datasets_with("answers"), last.datasets_with("styles")
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
        if policy.key.dataset in styled:
            values[STYLES] = policy.column(STYLES)
        if policy.key.dataset in answered:
            values[f"maj@{policy.n}"] = majority(policy.codes("answers"), policy.samples)
        for name, value in values.items():
            add(policy, policy.key, name, value)
    bases = bases_of(last)
    for policy in last.policies:
        base = bases[policy.key.dataset]
        # The base compares with itself there.
        largest = max((k for k in last.config.k if 2 * k <= base.n), default=0)
        if not 0 < largest <= policy.n:
            continue
        key = policy.key._replace(method=BASE_ITSELF) if policy is base else policy.key
        solved, both, gained = (part[:, 0] for part in solved_at(base, policy, [largest]))
        for rate, part, weight in (("keep", both, solved), ("explore", gained, 1.0 - solved)):
            if weight.any():
                add(policy, key, f"{rate}@{largest}", part, weight)
        for stratum, (inside, again) in strata(base, largest).items():
            if inside.sum() >= 1.0:
                passed = again if policy is base else inside * policy.pass_at([largest])[:, 0]
                add(policy, key, f"{stratum}@{largest}", passed, inside)
    return measured


def _largest(metrics: Mapping[str, _Metric], start: str, most: float = np.inf) -> str:
    """The metric with this start and the largest number up to `most`; the smallest number where all are larger."""
    numbers = numbered(metrics, start)
    return f"{start}{max((number for number in numbers if number <= most), default=numbers[0])}"


def _rows(level: str, dataset: str, name: str, metrics: Sequence[_Metric], study: Study) -> Iterator[dict[str, object]]:
    """The comparisons of a metric: with the methods of `evaluate.against`, and the pairs of claims.

    Args:
        metrics: one for each dataset. With several, a row is their mean, over the seeds that all of them have.
    """
    values: dict[str, list[Floats]] = {}
    for method in metrics[0].values:
        seeds = set.intersection(*({*metric.values.get(method, ())} for metric in metrics))
        if seeds:
            values[method] = [np.stack([metric.values[method][seed] for seed in sorted(seeds)]) for metric in metrics]
    questions = [metric.questions for metric in metrics]
    pairs = _pairs(set(values) - {*UNTRAINED}, study.config.against, study.claims)
    if name.startswith(AGAINST_ITSELF):
        # The base's own share by chance is on the other side.
        pairs = ((method, BASE_ITSELF if other == BASE else other) for method, other in pairs)
    for method, other in dict.fromkeys(pairs):
        if other in values:
            ours, theirs = ((side, training_means(values[side], questions)) for side in (method, other))
            estimate = difference(values[method], values[other], questions)
            yield _row(level, dataset, name, ours, theirs, estimate, questions)


def _pairs(methods: Iterable[str], against: Sequence[str], claims: Sequence[Claim]) -> Iterator[tuple[str, str]]:
    """Each method with those of `against`, each of these with those before it, and the pairs of claims."""
    for method in sorted(methods):
        before = against[: against.index(method)] if method in against else against
        others = dict.fromkeys([*before, *(claim.against for claim in claims if claim.method == method)])
        yield from ((method, other) for other in others)


def _row(
    level: str,
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
    if metric != STYLES:
        # Differences of shares.
        low, high = np.clip([low, high], -1.0, 1.0).tolist()
    trainings = estimate.trainings or Part(float("nan"), float("nan"))
    clusters = [sample.clusters for sample in questions]
    stratum = metric.partition("@")[0] in STRATA
    return {
        **{"level": level, "dataset": dataset, "metric": metric, "method": method, "against": against},
        **{"difference": estimate.value, "low": low, "high": high, "p": estimate.p},
        "p_permutation": permutation_p(means, other),
        **{"seeds": len(means), "seeds_against": 0 if against in UNTRAINED else len(other)},
        "questions": sum(round(sample.expected) if stratum else sample.number for sample in questions),
        "clusters": None if None in clusters else sum(number for number in clusters if number is not None),
        **{"error_trainings": trainings.error, "freedom_trainings": trainings.freedom},
        **{"error_questions": estimate.questions.error, "freedom_questions": estimate.questions.freedom},
        "trainings": (means - other.mean()).tolist(),
    }
