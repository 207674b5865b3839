"""Two small models of what keeps coverage, and the tables of docs/why.md: python dev/analytic.py

1. Closed form. A policy over five readings of an ambiguous question maximises reward - eta D(policy, base). Nothing in
   the question says which reading is right, so a reading's reward is its chance. Policies of different divergences are
   compared at the eta at which their mean reward is equal.
2. Dynamics. Questions share a part of their logits, and each has a private part. Arms train on them by samples, and are
   read on test questions: pass@16 at equal mean, and the accuracy bought (docs/statistics.md).
"""

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, brentq, minimize
from scipy.special import softmax

from dphrl.evaluation.frontier import accuracy_bought

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
# Readings of the embedded world (docs/decisions/the-world.md): shares of the base, and chances to be the right one.
SHARES, CHANCES = np.array([0.47, 0.23, 0.13, 0.10, 0.07]), np.array([0.37, 0.22, 0.16, 0.14, 0.11])
K, KEPT, WAYS = 16, 0.7, (0.25, 0.5, 0.75, 0.9, 0.98)
# pi/q as a function of s = (reward - constant) / eta, the inverse of f', and the end of its domain.
RATIOS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "reverse KL": (np.exp, 700.0),
    "alpha 0.5": (lambda s: (1.0 - 0.5 * s) ** -2.0, 2.0),
    "JS": (lambda s: np.exp(s) / (2.0 - np.exp(s)), np.log(2.0)),
    "forward KL": (lambda s: 1.0 / (1.0 - s), 1.0),
}


def optimum(divergence: str, eta: float, base: Floats, reward: Floats) -> Floats:
    """The policy that maximises reward - eta D: pi = q (f')^-1((r - c) / eta), with c so that it sums to 1."""
    ratio, end = RATIOS[divergence]
    below = (reward - reward.max()) / eta

    def excess(s: float) -> float:
        """Of the sum over 1; s is that of the best answer. Its share of the sum is at most 1, so s ends below it."""
        return float(base @ ratio(below + s)) - 1.0

    limit = brentq(lambda s: float(base[reward.argmax()] * ratio(np.array(s))) - 1.0, 0.0, end * (1.0 - 1e-12))
    policy = base * ratio(below + brentq(excess, 0.0, limit + 1e-9, xtol=1e-15))
    return np.asarray(policy / policy.sum())


def on_the_way(way: float, base: Floats, chances: Floats) -> float:
    """The mean at this share of the way from the base's to that of the best answer alone."""
    return float(base @ chances + way * (chances.max() - base @ chances))


def at_mean(divergence: str, mean: float, base: Floats, chances: Floats) -> tuple[float, float]:
    """The eta at which the optimum has this mean, and its pass@16."""

    def excess(log_eta: float) -> float:
        return float(optimum(divergence, np.exp(log_eta), base, chances) @ chances) - mean

    eta = float(np.exp(brentq(excess, -9.0, 9.0)))
    return eta, covered(optimum(divergence, eta, base, chances), chances)


def covered(policy: Floats, chances: Floats) -> float:
    """pass@16 of a question whose right answer has these chances."""
    return float(chances @ (1.0 - (1.0 - policy) ** K))


def most_covered(mean: float) -> float:
    """The largest pass@16 of any policy over the world's readings with this mean."""
    rules = LinearConstraint(np.stack([CHANCES, np.ones(5)]), [mean, 1.0], [mean, 1.0])
    return -float(minimize(lambda p: -covered(p, CHANCES), SHARES, bounds=[(0, 1)] * 5, constraints=rules).fun)


def closed_form(others: int) -> list[str]:
    """Rows by the share of the way to the best reading's mean: pass@16 (eta) of each divergence and of two bounds.

    Args:
        others: random questions of five answers; the last column has the 5th, 50th and 95th percentile over them.
    """
    random = np.random.default_rng(1)
    simplexes = [np.sort(random.dirichlet(np.full(5, 2.0), 2))[:, ::-1] for _ in range(others)]
    head = ["way", "mean", *RATIOS, "base and best mixed", "best possible", "forward - reverse, others"]
    rows = [_row(head), _row(["---:"] * len(head))]
    for way in WAYS:
        mean = on_the_way(way, SHARES, CHANCES)
        found = [at_mean(name, mean, SHARES, CHANCES) for name in RATIOS]
        bounds = covered((1.0 - way) * SHARES + way * np.eye(5)[0], CHANCES), most_covered(mean)
        gaps = []
        for base, chances in simplexes:
            forward, reverse = (
                at_mean(name, on_the_way(way, base, chances), base, chances)[1] for name in ("forward KL", "reverse KL")
            )
            gaps.append(100 * (forward - reverse))
        low, middle, high = np.percentile(gaps, [5, 50, 95])
        cells = [f"{way:.0%}", f"{100 * mean:.1f}", *(f"{100 * solved:.1f} ({eta:.2g})" for eta, solved in found)]
        cells += [f"{100 * value:.1f}" for value in bounds]
        rows.append(_row([*cells, f"{low:+.1f}, {middle:+.1f}, {high:+.1f}"]))
    return rows


# Kinds of questions: plain, noisy, ambiguous. Chances that the base's answer has no slip, and shares of the questions.
NO_SLIP = np.array([0.95, 0.55, 0.95])
TRAINING, TEST = (40, 32, 48), (72, 48, 180)
PROMPTS, ROLLOUTS, REHEARSED, RATE = 16, 16, 32, 0.5
STRENGTHS, GAIN = (0.1, 0.3, 1.0), 0.08


def grpo(right: Floats) -> Floats:
    centred = right - right.mean(-1, keepdims=True)
    return np.asarray(centred / (right.std(-1, ddof=1, keepdims=True) + 1e-6))


def maxrl(right: Floats) -> Floats:
    """MaxRL (arXiv 2602.02710): (r - p) / p, and 0 where no response is right."""
    rate = right.mean(-1, keepdims=True)
    return np.divide(right - rate, rate, out=np.zeros_like(right), where=rate > 0)


class Arm(NamedTuple):
    """A method.

    Attributes:
        rehearsed: the questions with a stored answer: "pef", "right" (some pre-sample is right) or "boundary" (1 to 7
            of 8 are). Questions of D_pef are then not rolled out. Empty: all are.
        pull: g = df / d log pi of the divergence at u = pi / base, on stored answers.
        gradient: of the divergence by the logits, from policy and base, on all rolled-out questions.
    """

    rehearsed: str = ""
    pull: Callable[[Floats], Floats] | None = None
    gradient: Callable[[Floats, Floats], Floats] | None = None
    advantage: Callable[[Floats], Floats] = grpo


def reverse_kl(policy: Floats, base: Floats) -> Floats:
    ratio = np.log(policy / base)
    return policy * (ratio - (policy * ratio).sum(-1, keepdims=True))


def forward_k3(ratio: Floats) -> Floats:
    return ratio - 1.0


ARMS = {
    "GRPO": Arm(),
    "MaxRL": Arm(advantage=maxrl),
    "reverse KL on all": Arm(gradient=reverse_kl),
    "forward KL on all": Arm(gradient=lambda policy, base: policy - base),
    "D_exp only": Arm("pef"),
    "DPH-F": Arm("pef", forward_k3),
    # Twice g of the released JS, whose f'' is 1/2 at the base: its strength is then that of the forward KL.
    "DPH-JS": Arm("pef", lambda ratio: 2.0 * ratio * np.log(2.0 * ratio / (1.0 + ratio))),
    "replay": Arm("pef", lambda ratio: -np.ones_like(ratio)),
    "rehearse right": Arm("right", forward_k3),
    "rehearse boundary": Arm("boundary", forward_k3),
}


def questions(numbers: tuple[int, ...], worlds: int, random: np.random.Generator) -> tuple[Integers, Floats, Floats]:
    """(questions,) kinds; (worlds, questions, 10) each: logits of the base, and 1 for answers that are right.

    An answer is one of five readings, with a slip or without. With a slip it is wrong. An ambiguous question has one
    right reading, which the question does not show; the others accept all readings.
    """
    kinds = np.repeat(np.arange(3), numbers)
    chances = np.concatenate([SHARES * NO_SLIP[kinds][:, None], SHARES * (1.0 - NO_SLIP[kinds])[:, None]], axis=1)
    gold = np.eye(5)[random.choice(5, (worlds, len(kinds)), p=CHANCES)]
    readings = np.where((kinds == 2)[:, None], gold, 1.0)
    logits = np.log(chances) + random.normal(0.0, 0.5, (worlds, *chances.shape))
    return kinds, logits, np.concatenate([readings, np.zeros_like(readings)], axis=-1)


def drawn(policy: Floats, number: int, random: np.random.Generator) -> Integers:
    """(..., number) answers from (..., 10) chances."""
    steps = policy.cumsum(axis=-1)[..., None, :-1]
    return np.asarray((random.random((*policy.shape[:-1], number, 1)) > steps).sum(axis=-1))


def chosen(allowed: NDArray[np.bool_], number: int, random: np.random.Generator) -> Integers:
    """(trainings, number) different questions, those that are allowed first."""
    return np.argsort(random.random(allowed.shape) + ~allowed, axis=1)[:, :number]


def train(arm: Arm, strength: float, trainings: int, steps: int, private_rate: float = 1.0) -> tuple[Floats, Floats]:
    """Trainings of an arm by gradient ascent on samples, each in a world of its own, the same for every arm.

    Args:
        private_rate: of a question's private logits, as a multiple of the rate of the shared ones.

    Returns:
        (trainings, evaluations) each: accuracy on the test questions, and pass@16 of the ambiguous ones, every 5 steps.
    """
    world, random, other_random = (np.random.default_rng(seed) for seed in (1, 2, 3))
    kinds, logits, right = questions(TRAINING, trainings, world)
    test_kinds, test_logits, test_right = questions(TEST, trainings, world)
    base, rows = softmax(logits, axis=-1), np.arange(trainings)[:, None]
    presampled, extra = drawn(base, 8, random), drawn(base, 1, random)
    verdicts = np.take_along_axis(right, presampled, axis=-1)
    passed = verdicts.sum(axis=-1)
    mastered = (passed >= 7) & (np.take_along_axis(right, extra, axis=-1)[..., 0] > 0)
    first_right = np.take_along_axis(presampled, verdicts.argmax(axis=-1)[..., None], axis=-1)
    rehearsed, stored = {
        "": (mastered, extra),
        "pef": (mastered, extra),
        "right": (passed > 0, first_right),
        "boundary": ((passed > 0) & (passed < 8), first_right),
    }[arm.rehearsed]
    of_all, of_kind, private = np.zeros((trainings, 1, 10)), np.zeros((trainings, 3, 10)), np.zeros(base.shape)

    def policy(asked: Integers) -> Floats:
        moved = of_all + of_kind[rows, kinds[asked]] + private[rows, asked]
        return np.asarray(softmax(logits[rows, asked] + moved, axis=-1))

    def ascend(asked: Integers, gradient: Floats) -> None:
        """A step of each part of the logits; the gradient is (trainings, questions asked, 10)."""
        of_all[:] += RATE * gradient.sum(axis=1, keepdims=True)
        for kind in range(3):
            of_kind[:, kind] += RATE * (gradient * (kinds[asked] == kind)[..., None]).sum(axis=1)
        private[rows, asked] += private_rate * RATE * gradient

    course = []
    for step in range(steps + 1):
        if step % 5 == 0:
            tested = (softmax(test_logits + of_all + of_kind[:, test_kinds], axis=-1) * test_right).sum(axis=-1)
            solved = 1.0 - (1.0 - tested[:, test_kinds == 2]) ** K
            course.append([tested.mean(axis=1), solved.mean(axis=1)])
        asked = chosen(~mastered if arm.rehearsed else np.ones_like(mastered), PROMPTS, random)
        now = policy(asked)
        answers = drawn(now, ROLLOUTS, random)
        advantages = arm.advantage(np.take_along_axis(right[rows, asked], answers, axis=-1))
        gradient = (advantages[..., None] * (np.eye(10)[answers] - now[:, :, None])).mean(axis=2)
        if arm.gradient:
            gradient -= strength * arm.gradient(now, base[rows, asked])
        updates = [(asked, gradient / PROMPTS)]
        if arm.pull:
            again = chosen(rehearsed, REHEARSED, other_random)
            counted = np.take_along_axis(rehearsed, again, axis=1)[..., None]
            now, answer = policy(again), stored[rows, again]
            ratio = np.take_along_axis(now, answer, axis=-1) / np.take_along_axis(base[rows, again], answer, axis=-1)
            gradient = strength * counted * arm.pull(ratio) * (now - np.eye(10)[answer[..., 0]])
            updates.append((again, gradient / counted.sum(axis=1, keepdims=True)))
        for where, gradient in updates:
            ascend(where, gradient)
    means, solved = np.array(course).transpose(1, 2, 0)
    return means, solved


def at_gain(means: Floats, covered: Floats) -> Floats:
    """(trainings,), pass@16 where each first has gained GAIN, by linear interpolation; NaN where it never does."""
    values = np.full(len(means), np.nan)
    for training, gained in enumerate(means - means[:, :1]):
        if gained.max() >= GAIN:
            after = int((gained >= GAIN).argmax())
            values[training] = np.interp(GAIN, gained[after - 1 : after + 1], covered[training, after - 1 : after + 1])
    return values


def dynamics(trainings: int, steps: int, private_rate: float = 1.0) -> list[str]:
    """Rows by arm, with a value for each strength of the divergence: GRPO's means, then differences to it.

    Each has its standard error over trainings, and their number where not all reach the mean.
    """
    head = ["arm", "pass@16 at equal mean", "accuracy bought", "last mean", "last pass@16"]
    rows = [_row(head), _row(["---"] + ["---:"] * 4)]
    reference = np.zeros((4, trainings))
    for name, arm in ARMS.items():
        cells: list[list[str]] = [[] for _ in reference]
        for strength in STRENGTHS if arm.pull or arm.gradient else STRENGTHS[:1]:
            means, covered = train(arm, strength, trainings, steps, private_rate)
            points = np.stack([means - means[:, :1], covered / covered[:, :1]], axis=-1)
            bought = np.array([accuracy_bought(path, KEPT) for path in points])
            values = np.stack([at_gain(means, covered), bought, means[:, -1], covered[:, -1]])
            for cell, gaps in zip(cells, 100.0 * (values - reference), strict=True):
                cell.append(_shown(gaps, "+" if reference.any() else ""))
        if name == "GRPO":
            reference = values
            rows.append(_row(["base", "", "", *(_shown(100.0 * each[:, 0], "") for each in (means, covered))]))
        rows.append(_row([name, *map(", ".join, cells)]))
    return rows


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(gaps: Floats, sign: str) -> str:
    there = gaps[~np.isnan(gaps)]
    if len(there) < 2:
        return "-"
    number = "" if len(there) == len(gaps) else f" ({len(there)})"
    return f"{there.mean():{sign}.1f} ± {there.std(ddof=1) / len(there) ** 0.5:.1f}{number}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=float, default=1.0, help="rate of private logits, in that of shared ones")
    rows = closed_form(others=100), dynamics(trainings=32, steps=200, private_rate=parser.parse_args().private)
    print("\n\n".join(map("\n".join, rows)))
