"""The frontier of a training: for each share of the base's coverage that is kept, the largest gain of accuracy.

Each policy of a training is a point: x, its mean accuracy less the base's, and y, its pass@k over the base's. The base
is (0, 1). H is the upper concave hull of the points: two policies, one drawn for each question, reach every point
between theirs. G(kept) is the largest x on H with y >= kept, and A the mean of G over `kept` from a least share to 1. A
training that gains nothing has A = 0, as the base by itself has.

With split draws a policy and the base share the k draws. That is free, and a path of its own for each policy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.interval import Floats, Questions
from dphrl.evaluation.names import MIXED, of_mixture
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS

BOUGHT, BOUGHT_SPLIT = "accuracy_bought", "accuracy_bought_split"
_KEPT = (0.9, 0.8, 0.7, 0.6, 0.5)
# How often the questions are drawn again.
_DRAWS = 200


@dataclass(frozen=True)
class Training:
    """A training on the frontier.

    Attributes:
        bought: for each metric (1 + draws,), the accuracy bought on the questions that were measured, then on
            questions drawn again.
        values: of the table "frontier", by metric.
    """

    seed: int
    bought: dict[str, Floats]
    values: dict[str, float]


@dataclass(frozen=True)
class Paths:
    """The trainings of a dataset on its frontier, with pass@k of one level or of all questions.

    Attributes:
        level: empty for all questions.
        questions: of the dataset; accuracy is over all of them.
        trainings: by method.
    """

    dataset: str
    level: str
    questions: Questions
    trainings: dict[str, list[Training]]

    def bought(self, metric: str) -> dict[str, Floats]:
        """(trainings, 1 + draws) of each method."""
        return {
            method: np.stack([training.bought[metric] for training in trainings])
            for method, trainings in self.trainings.items()
        }


def paths(study: Study) -> Iterator[Paths]:
    """The frontiers of each dataset: over all questions, then by level; none where the base solves nothing.

    Every evaluated step of a training is a point of its path. The largest k of the dataset counts. Where few questions
    are drawn again, the base may have solved none of them. Such a draw has no y and is left out, so the error of
    questions is that among draws in which the base solves some.
    """
    for dataset, policies in study.by_dataset().items():
        base, by_method = policies[0], of_trainings(policies)
        k = base.up_to_n(study.config.k)[-1]
        questions = Questions(np.ones(base.rows.height), base.clusters)
        drawn = drawn_again(base, questions, study.seed)
        for level in ["", *(name for name, part in study.levels if part.policies[0].key.dataset == dataset)]:
            inside = base.rows["level"].eq_missing(level).to_numpy() if level else np.full(base.rows.height, True)
            solves = base.pass_at([k])[inside, 0] @ drawn[inside] > 0
            if not solves[0]:
                continue
            again = drawn.compress(solves, axis=1)
            trainings = {
                method: [_measure(path, k, inside, again, study.config.frontier_from) for path in of_method]
                for method, of_method in by_method.items()
            }
            yield Paths(dataset, level, questions, trainings)


def of_trainings(policies: Sequence[Policy]) -> dict[str, list[list[Policy]]]:
    """The paths of each method's trainings: the base, then the steps. The first policy is the base.

    Weights mixed with the base's are a path of their own, which ends at the policy that was mixed.
    """
    base, *others = policies
    by_training: dict[tuple[str, int], list[Policy]] = {}
    mixed: dict[tuple[str, int], list[Policy]] = {}
    for policy in others:  # steps are ascending
        method, seed = policy.key[:2]
        if mixture := of_mixture(method):
            mixed.setdefault((mixture[0], seed), [base]).append(policy)
        else:
            by_training.setdefault((method, seed), [base]).append(policy)
    by_method: dict[str, list[list[Policy]]] = {}
    for (method, _), path in by_training.items():
        by_method.setdefault(method, []).append(path)
    for (method, seed), path in mixed.items():
        by_method.setdefault(f"{method}-{MIXED}", []).append([*path, by_training[method, seed][-1]])
    return by_method


def frontier_table(measured: Sequence[Paths]) -> pl.DataFrame:
    """The table "frontier": by training, A with and without split draws, G at some kept shares, and the best mean.

    `level` is empty for all questions.
    """
    schema = SCHEMAS["frontier"]
    rows = [
        (of_level.dataset, of_level.level, method, training.seed, metric, value)
        for of_level in measured
        for method, trainings in of_level.trainings.items()
        for training in trainings
        for metric, value in training.values.items()
    ]
    return schema.frame(rows).sort(schema.key)


def means_and_covered(
    path: Sequence[Policy], k: int, inside: NDArray[np.bool_], drawn: Floats
) -> tuple[Floats, Floats]:
    """Mean accuracy over all questions, and pass@k over those inside; each (policies, draws).

    Args:
        drawn: (questions, draws), how often each question counts.
    """
    right = np.stack([policy.solve_rates for policy in path]) @ drawn / drawn.sum(axis=0)
    solved = np.stack([policy.pass_at([k])[inside, 0] for policy in path]) @ drawn[inside]
    return right, solved / drawn[inside].sum(axis=0)


def _measure(path: Sequence[Policy], k: int, inside: NDArray[np.bool_], drawn: Floats, least: float) -> Training:
    """A training; `path` is the base, then its steps."""
    right, solved = means_and_covered(path, k, inside, drawn)
    base = path[0].counts[:, inside]
    split_right, split_solved = [right], [solved]
    for policy, mean in zip(path[1:], right[1:], strict=True):
        share = np.arange(1, k)[:, None] / k
        split_right.append(share * right[0] + (1.0 - share) * mean)
        split_solved.append(
            np.stack([split_pass_at_k(policy.counts[:, inside], base, k, of_base) for of_base in range(1, k)])
            @ drawn[inside]
            / drawn[inside].sum(axis=0)
            if k > 1
            else np.empty((0, drawn.shape[1]))
        )
    bought = {
        BOUGHT: bought_by_draw(right, solved, least),
        BOUGHT_SPLIT: bought_by_draw(np.vstack(split_right), np.vstack(split_solved), least),
    }
    gains = gain(_points(right, solved)[:, 0], _KEPT)
    values = {metric: float(draws[0]) for metric, draws in bought.items()}
    values |= {f"gain@{kept:g}": value for kept, value in zip(_KEPT, gains.tolist(), strict=True)}
    values["best_mean"] = float(right[:, 0].max())
    return Training(path[-1].key.seed, bought, values)


def bought_by_draw(means: Floats, covered: Floats, least: float) -> Floats:
    """(draws,), A of a path; both arguments are (policies, draws), as of `means_and_covered`."""
    points = _points(means, covered)
    return np.array([accuracy_bought(points[:, draw], least) for draw in range(points.shape[1])])


def _points(means: Floats, covered: Floats) -> Floats:
    """(policies, draws, 2), x and y; the first policy is the base."""
    return np.stack([means - means[0], covered / covered[0]], axis=-1)


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
        while len(corners) > 1:
            (x0, y0), (x1, y1) = corners[-2:]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break
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


def split_pass_at_k(policy: NDArray[np.int64], base: NDArray[np.int64], k: int, of_base: int) -> Floats:
    """(questions,), pass@k of k draws of which `of_base` are the base's: exact from the counts, nothing is sampled.

    All draws fail with probability C(n_a - c_a, j) C(n_b - c_b, k - j) / (C(n_a, j) C(n_b, k - j)), with j draws of the
    policy a and k - j of the base b.

    Args:
        policy, base: (2, questions), samples n and right ones c.
    """
    failed = np.ones(policy.shape[1])
    for (n, c), draws in ((policy, k - of_base), (base, of_base)):
        if draws:
            failed *= 1.0 - np.asarray(pass_at_k(n, c, draws))
    return 1.0 - failed
