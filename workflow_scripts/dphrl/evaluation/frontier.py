"""The frontier of a training: how much accuracy its policies buy while how much of the base's coverage is kept.

Each policy of a training is a point: x, its mean accuracy less the base's, and y, its pass@k over the base's. The base
is (0, 1). H is the upper concave hull of the points: two policies, one drawn for each question, reach every point
between theirs. G(kept) is the largest x on H with y >= kept, and A the mean of G over `kept` from a least share to 1. A
training that gains nothing has A = 0, as the base by itself has.

With split draws a policy and the base share the k draws. That is free, and a path of its own for each policy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.interval import Floats, Questions
from dphrl.evaluation.methods import MIXED, of_mixture
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

BOUGHT, BOUGHT_SPLIT = "accuracy_bought", "accuracy_bought_split"
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
_KEPT = (0.9, 0.8, 0.7, 0.6, 0.5)
# How often the questions are drawn again.
_DRAWS = 200


@dataclass(frozen=True)
class Paths:
    """The trainings of a dataset on its frontier, with pass@k of one level or of all questions.

    Attributes:
        level: None for all questions.
        prompts: of the level.
        questions: of the dataset; accuracy is over all of them.
        bought: for each metric and method (trainings, 1 + draws), the accuracy bought on the questions that were
            measured, then on questions drawn again.
        rows: of the table "frontier".
    """

    dataset: str
    level: str | None
    prompts: int
    questions: Questions
    bought: dict[str, dict[str, Floats]] = field(default_factory=dict)
    rows: list[tuple[object, ...]] = field(default_factory=list)


def paths(study: Study) -> Iterator[Paths]:
    """The frontiers of each dataset: over all questions, then by level; none where the base solves nothing.

    Every evaluated step of a training is a point of its path. The largest k of the dataset counts.
    """
    by_dataset: dict[str, list[Policy]] = {}
    for policy in study.policies:
        by_dataset.setdefault(policy.key.dataset, []).append(policy)
    levels: dict[str, list[str]] = {}
    for level, part in study.levels:
        levels.setdefault(part.policies[0].key.dataset, []).append(level)
    for dataset, (base, *others) in by_dataset.items():
        of_training = _of_trainings(base, others)
        k = base.up_to_n(study.config.k)[-1]
        questions = Questions(np.ones(base.rows.height), base.clusters)
        drawn = drawn_again(base, questions, study.seed)
        scopes: list[str | None] = [None, *levels.get(dataset, [])]
        for scope in scopes:
            inside = (
                np.full(base.rows.height, True) if scope is None else base.rows["level"].eq_missing(scope).to_numpy()
            )
            if not (base.pass_at([k])[inside, 0] @ drawn[inside]).all():
                continue
            found = Paths(dataset, scope, int(inside.sum()), questions)
            for (method, seed), path in of_training.items():
                _follow(found, method, seed, path, k, inside, drawn, study.config.frontier_from)
            yield found


def _of_trainings(base: Policy, others: Sequence[Policy]) -> dict[tuple[str, int], list[Policy]]:
    """The base and the steps of each training; weights mixed with the base's are a path of their own, with its end."""
    by_training: dict[tuple[str, int], list[Policy]] = {}
    mixed: dict[tuple[str, int], list[Policy]] = {}
    for policy in others:  # steps are ascending
        method, seed = policy.key[:2]
        if mixture := of_mixture(method):
            mixed.setdefault((mixture[0], seed), [base]).append(policy)
        else:
            by_training.setdefault((method, seed), [base]).append(policy)
    ends = {key: [*path, by_training[key][-1]] for key, path in mixed.items()}
    return by_training | {(f"{method}-{MIXED}", seed): path for (method, seed), path in ends.items()}


def frontier_table(measured: Sequence[Paths]) -> pl.DataFrame:
    """The table "frontier": by training, A with and without split draws, G at some kept shares, and the best mean.

    `level` is empty for all questions.
    """
    schema = SCHEMAS["frontier"]
    return schema.frame([row for found in measured for row in found.rows]).sort(schema.key)


def _follow(
    found: Paths,
    method: str,
    seed: int,
    path: Sequence[Policy],
    k: int,
    inside: NDArray[np.bool_],
    drawn: Floats,
    least: float,
) -> None:
    """Add a training to the paths; `path` is the base, then its steps."""
    total = drawn[inside].sum(axis=0)
    right = np.stack([policy.solve_rates for policy in path]) @ drawn / drawn.sum(axis=0)
    solved = np.stack([policy.pass_at([k])[inside, 0] for policy in path]) @ drawn[inside] / total
    base = path[0].sizes[inside], path[0].right[inside]
    split_right, split_solved = [right], [solved]
    for policy, mean in zip(path[1:], right[1:], strict=True):
        counts = policy.sizes[inside], policy.right[inside]
        share = np.arange(1, k)[:, None] / k
        split_right.append(share * right[0] + (1.0 - share) * mean)
        split_solved.append(
            np.stack([split_pass_at_k(counts, base, k, of_base) for of_base in range(1, k)]) @ drawn[inside] / total
            if k > 1
            else np.empty((0, drawn.shape[1]))
        )
    both = {BOUGHT: (right, solved), BOUGHT_SPLIT: (np.vstack(split_right), np.vstack(split_solved))}
    for metric, (means, covered) in both.items():
        ways = np.stack([means - means[0], covered / covered[0]], axis=-1)
        bought = np.array([[accuracy_bought(ways[:, draw], least) for draw in range(drawn.shape[1])]])
        of_metric = found.bought.setdefault(metric, {})
        of_metric[method] = np.vstack([of_metric[method], bought]) if method in of_metric else bought
        key = (found.dataset, found.level or "", method, seed)
        found.rows.append((*key, metric, float(bought[0, 0])))
        if metric == BOUGHT:
            gains = gain(ways[:, 0], _KEPT)
            found.rows.extend(
                (*key, f"gain@{kept:g}", value) for kept, value in zip(_KEPT, gains.tolist(), strict=True)
            )
            found.rows.append((*key, "best_mean", float(means[:, 0].max())))


def drawn_again(base: Policy, questions: Questions, seed: int) -> Floats:
    """(questions, 1 + draws), how often each question counts: once, then drawn again within its level, or by groups."""
    height, generator = base.rows.height, np.random.default_rng(seed)
    drawn = np.ones((height, 1 + _DRAWS))
    if questions.grouped:
        units = questions.units
        drawn[:, 1:] = generator.multinomial(units, np.full(units, 1 / units), _DRAWS).T[questions.unit]
        return drawn
    level = base.rows["level"] if "level" in base.rows.columns else pl.repeat(None, height, eager=True)
    strata = level.rank("dense").fill_null(0).to_numpy()
    for stratum in np.unique(strata):
        here = np.flatnonzero(strata == stratum)
        drawn[here, 1:] = generator.multinomial(len(here), np.full(len(here), 1 / len(here)), _DRAWS).T
    return drawn


def frontier(path: ArrayLike) -> Floats:
    """(corners, 2), the corners of the hull from its highest point on: x rises, y falls.

    Args:
        path: (policies, 2), x and y of each; one of them is the base.
    """
    corners: list[tuple[float, float]] = []
    for x, y in sorted(map(tuple, np.asarray(path, dtype=np.float64).tolist())):
        # A corner at or below the line from the one before it to this point is none.
        while len(corners) > 1 and _turns_left(corners[-2], corners[-1], (x, y)):
            corners.pop()
        if corners and corners[-1][1] <= y:
            corners.pop()
        corners.append((x, y))
    return np.array(corners)


def gain(path: ArrayLike, kept: ArrayLike) -> Floats:
    """G: the largest x on the hull with y >= kept, for each `kept` up to 1."""
    corners = frontier(path)[::-1]
    return np.asarray(np.interp(np.asarray(kept, dtype=np.float64), corners[:, 1], corners[:, 0]))


def accuracy_bought(path: ArrayLike, least: float) -> float:
    """A: the mean of G over `kept` from `least` to 1. Exact, since G is linear between the corners."""
    ends = np.unique(np.clip([least, *frontier(path)[:, 1], 1.0], least, 1.0))
    return float(np.trapezoid(gain(path, ends), ends)) / (1.0 - least)


def split_pass_at_k(policy: Counts, base: Counts, k: int, of_base: int) -> Floats:
    """(questions,), pass@k of k draws of which `of_base` are the base's: exact from the counts, nothing is sampled.

    All draws fail with probability C(n_a - c_a, k - j) C(n_b - c_b, j) / (C(n_a, k - j) C(n_b, j)), j draws of base b.

    Args:
        policy, base: samples n and right ones c of each question.
    """
    failed = np.ones(len(policy[0]))
    for (n, c), draws in ((policy, k - of_base), (base, of_base)):
        if draws:
            failed *= 1.0 - np.asarray(pass_at_k(n, c, draws))
    return 1.0 - failed


def _turns_left(first: Sequence[float], middle: Sequence[float], last: Sequence[float]) -> bool:
    """Whether the way from the first over the middle to the last point does not turn right."""
    (x0, y0), (x1, y1), (x2, y2) = first, middle, last
    return (x1 - x0) * (y2 - y0) - (y1 - y0) * (x2 - x0) >= 0.0
