"""Which published estimator is a function of advantages? Its values are compared with those of remedies.json.

    python examples/which_remedy.py mine.py:advantage [NAME=NUMBER ...]

Without arguments it asks about one of remedies.py:

    pkpo is pkpo: all 10 groups agree

NAME=NUMBER is an argument of the function. Arguments of a published estimator, such as k, are passed where the function
has one of that name. k=4 replaces the published k in every group, so an estimator with groups of several k cannot
agree. Exit status 1 where no estimator agrees.
"""

import inspect
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dphrl.objective.advantages import ScoredGroup
from dphrl.objective.user_functions import user_function

# Published code adds 1e-6 to a standard deviation.
_CLOSE = 1e-4


def vectors(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, float], ScoredGroup, Tensor]]:
    """Name and settings of an estimator, a group, and its advantages (n,), of the content of remedies.json."""
    for name, rows in values["by_counts"].items():
        for row in rows:
            right = [1] * row["c"] + [0] * (row["n"] - row["c"])
            advantages = [row["right"] if is_right else row["wrong"] for is_right in right]
            yield name, row["settings"], _group({"correct": right}), _divided(advantages, row["square"])
    for row in values["groups"]:
        advantages = _divided(row["advantages"], row.get("square", "1"))
        if "plus" in row:
            advantages = advantages + _numbers(row["plus"])
        yield row["name"], row["settings"], _group(row), advantages


def agreeing(place: str, settings: dict[str, float]) -> dict[str, int]:
    """The estimators that a function agrees with in all of their groups, with the number of groups."""
    function = user_function(place)
    takes = inspect.signature(function).parameters
    agrees = defaultdict[str, list[bool]](list)
    for name, published, group, wanted in vectors(json.loads(Path(__file__).with_name("remedies.json").read_text())):
        try:
            values = function(group, **{key: value for key, value in published.items() if key in takes} | settings)
            close = torch.allclose(values.double(), wanted, rtol=_CLOSE, atol=_CLOSE / 10)
        except Exception:  # a function may need what another estimator's group lacks
            close = False
        agrees[name].append(close)
    return {name: len(each) for name, each in agrees.items() if all(each)}


def _group(row: dict[str, Any]) -> ScoredGroup:
    """A group with equal lengths and without log-probs where a row names none."""
    correct = torch.tensor(row["correct"], dtype=torch.bool)
    logs = {name: _numbers(row[f"exp_{name}"]).log() for name in ("logprobs", "reference") if f"exp_{name}" in row}
    if "logprobs" in row:
        logs["logprobs"] = _numbers(row["logprobs"])
    right, n = row.get("base", (None, None))
    return ScoredGroup(
        correct,
        correct.double(),
        lengths=torch.tensor(row.get("lengths", [1] * len(correct))),
        finished=torch.ones_like(correct),
        answers=torch.arange(len(correct)),
        step=1,
        programs=torch.tensor(row["programs"]) if "programs" in row else None,
        base_right=right,
        base_n=n,
        **logs,
    )


def _divided(values: Sequence[str], square: str) -> Tensor:
    return _numbers(values) / float(Fraction(square)) ** 0.5


def _numbers(values: Sequence[str | int]) -> Tensor:
    return torch.tensor([float(Fraction(value)) for value in values], dtype=torch.float64)


def main(place: str = f"{Path(__file__).parent}/remedies.py:pkpo", *settings: str) -> int:
    function = place.rpartition(":")[2]
    named = {name: float(value) for name, value in (setting.split("=") for setting in settings)}
    found = agreeing(place, named)
    for name, number in found.items():
        print(f"{function} is {name}: all {number} groups agree")
    if not found:
        print(f"{function} agrees with no estimator of remedies.json in all of its groups")
    return 0 if found else 1


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except ValueError as fault:
        sys.exit(f"which_remedy.py: {fault}")
