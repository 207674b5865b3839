"""Scorers by the name of their task: the two of this package, and classes that a user's file registers."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dphrl.scoring.math.scorer import MathScorer
from dphrl.scoring.sql.scorer import SqlScorer
from dphrl.scoring.verdict import Scorer, Verdict, checked_score

_registered: dict[str, type["CustomScorer"]] = {}
_Class = TypeVar("_Class", bound=type["CustomScorer"])


def make_scorer(
    task: str,
    settings: Mapping[str, Any],
    *,
    workers: int = 1,
    databases: str | Path | None = None,
    source: str | Path | None = None,
    programs: bool = True,
) -> Scorer:
    """The scorer of a task: `sql`, `math` or the name of a custom scorer.

    Args:
        settings: the scorer's block of the configuration (`scoring.sql`, say), without `workers` and `source`.
        databases: folder of the databases; needed for `sql`.
        source: file of a custom scorer; needed for one.
        programs: whether verdicts on SQL have a program class; training does not need it.
    """
    if task == "sql":
        assert databases is not None
        return SqlScorer(databases, workers=workers, programs=programs, **settings)
    if task == "math":
        return MathScorer(workers=workers, **settings)
    assert source is not None
    return load_scorer(task, source, settings["options"])


class CustomScorer(Scorer):
    """Base of custom scorers; `scoring.custom.<name>.options` are the arguments of `__init__`.

    It runs in the scoring job itself. A scorer that executes model output must do so in separate processes under
    limits, as `SqlScorer` does.
    """

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        raise NotImplementedError

    def response_to(self, ground_truth: Mapping[str, Any]) -> str | None:
        """A response that must be judged correct, so that gold answers can be audited; None: no audit."""
        return None

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """For each gold answer the verdict on its `response_to`, and `unrunnable` where that is not `correct`."""
        responses = [self.response_to(truth) for truth in ground_truths]
        verdicts = checked_score(self, responses, ground_truths, without=Verdict("correct", True, 1.0))
        return [(verdict.verdict, None if verdict.correct else "unrunnable") for verdict in verdicts]

    def close(self) -> None:
        """Release the scorer's resources."""


def register(name: str) -> Callable[[_Class], _Class]:
    """Class decorator: the scorer of the task `name`."""

    def enter(scorer: _Class) -> _Class:
        _registered[name] = scorer
        return scorer

    return enter


def load_scorer(name: str, source: str | Path, options: Mapping[str, Any]) -> CustomScorer:
    """The scorer that the file `source` registers as `name`; ValueError if it registers none of that name."""
    spec = importlib.util.spec_from_file_location(f"dphrl_scorer_{name}", source)
    if spec is None or spec.loader is None:
        raise ValueError(f"scoring.custom.{name}: {source} is not a Python file: expected a name that ends in .py")
    _registered.clear()  # of other files
    module = importlib.util.module_from_spec(spec)
    # Data classes and processes of the scorer find their module by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if name not in _registered:
        registered = f"{source} registers {', '.join(sorted(_registered)) or 'nothing'}"
        raise ValueError(f"scoring.custom.{name}: {registered}; expected a class under @register({name!r})")
    return _registered[name](**options)
