"""The interval that the registrations named, so that their tables print as registered.

Trainings and questions are crossed random effects. The variance of trainings is pooled over methods unless Bartlett's
test says (p < 0.05) that it differs, less the part that questions add. Degrees of freedom are Satterthwaite's, and not
below the smallest of their parts; this floor came after the results of the first registration. The project's interval
since release 0.6 is `dphrl.evaluation.interval`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from scipy.stats import bartlett

from dphrl.evaluation.interval import Questions
from dphrl.evaluation.names import UNTRAINED
from dphrl.evaluation.study import Policy

Floats = NDArray[np.float64]
_ZERO = 1e-24


class Registered(NamedTuple):
    """A difference with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        half = float(stdtrit(self.freedom, 0.975)) * self.error
        return self.value - half, self.value + half

    @property
    def p(self) -> float:
        """p of the two-sided t test."""
        return 2.0 * float(stdtr(self.freedom, -abs(self.value) / self.error)) if self.error > 0 else float("nan")

    def detectable(self, level: float) -> float:
        """The difference that a test at this level finds in 80 % of cases."""
        return self.error * float(stdtrit(self.freedom, 1.0 - level / 2.0) + stdtrit(self.freedom, 0.8))


class Spread(NamedTuple):
    """Of the trainings of a method: their variance beyond that of questions, and the mean square it comes from."""

    component: float
    square: float
    freedom: float
    pooled: bool


def registered(values: Mapping[str, Floats], questions: Questions, method: str, against: str) -> Registered:
    """method - against, from (trainings, questions) values of all methods."""
    means = {name: questions.mean(rows) for name, rows in values.items()}
    noise = {name: _noise(rows, questions) for name, rows in values.items()}
    spreads = _spreads({name: rows for name, rows in means.items() if name not in UNTRAINED}, noise)
    pair = [name for name in (method, against) if name not in UNTRAINED]
    gap = values[method].mean(axis=0) - values[against].mean(axis=0)
    over_questions, freedom = map(float, questions.spread(gap))
    component, parts = 0.0, []
    if all(name in spreads for name in pair):
        sizes = {name: len(means[name]) for name in pair}
        component = sum(spreads[name].component / sizes[name] for name in pair)
        parts = [(spreads[name].square / sizes[name], spreads[name].freedom) for name in pair]
        if len(pair) == 2 and spreads[method].pooled:
            parts = [(parts[0][0] + parts[1][0], parts[0][1])]
    variance = over_questions + component
    measured = [] if component > 0 and over_questions <= _ZERO else [(over_questions, freedom)]
    measured += parts if component > 0 else []
    below = sum(part**2 / of_part for part, of_part in measured)
    floor = min(of_part for _, of_part in measured)
    error = float(np.sqrt(variance)) if variance > _ZERO else float("nan")
    value = float(means[method].mean() - means[against].mean())
    return Registered(value, error, max(variance**2 / below, floor) if below else float("nan"))


def _spreads(means: Mapping[str, Floats], noise: Mapping[str, float]) -> dict[str, Spread]:
    several = {name: rows for name, rows in means.items() if len(rows) > 1}
    freedoms = {name: len(rows) - 1.0 for name, rows in several.items()}
    squares = {name: float(rows.var(ddof=1)) for name, rows in several.items()}
    if not several:
        return {}
    varied = [bool(rows.var() > _ZERO) for rows in several.values()]
    tested = len(several) > 1 and any(varied)
    if tested and not (all(varied) and bartlett(*several.values()).pvalue >= 0.05):
        return {
            name: Spread(max(square - noise[name], 0.0), square, freedoms[name], False)
            for name, square in squares.items()
        }
    total = sum(freedoms.values())
    square, subtracted = (sum(freedoms[name] * part[name] for name in several) / total for part in (squares, noise))
    return dict.fromkeys(means, Spread(max(square - subtracted, 0.0), square, total, True))


def _noise(rows: Floats, questions: Questions) -> float:
    """The part of the variance of a training's mean that is due to the questions."""
    if len(rows) < 2:
        return 0.0
    return float(questions.spread(rows - rows.mean(axis=0))[0].mean()) * len(rows) / (len(rows) - 1)


def at_mean(path: Sequence[Policy], inside: NDArray[np.bool_], k: int, target: float) -> Floats:
    """pass@k at equal accuracy as (questions,) values, whose spread gives the error by the delta method.

    Args:
        path: the base, then the steps of a training.
        inside: (questions,), over which pass@k is taken.
    """
    right = np.stack([policy.solve_rates for policy in path])
    solved = np.stack([policy.pass_at([k])[:, 0] for policy in path])
    means, covered, steps = right.mean(axis=1), solved[:, inside].mean(axis=1), np.eye(len(path))
    reached = np.flatnonzero(means >= target)
    end, slope = int(reached[0]) if len(reached) else 1 + int(means[1:].argmax()), 0.0
    at = steps[end]
    if len(reached) and end:
        rise = means[end] - means[end - 1]
        share = (target - means[end - 1]) / rise
        at, slope = (1.0 - share) * steps[end - 1] + share * steps[end], (covered[end] - covered[end - 1]) / rise
    value = float(at @ covered)
    on_line = inside / inside.mean() * (at @ solved - value) - slope * (at @ right - at @ means)
    return np.asarray(value + on_line)
