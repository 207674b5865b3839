"""Scorers by the name of their task: the two of this package, and classes that a user's file registers."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from dphrl.scoring.math.scorer import MathScorer
from dphrl.scoring.sql.scorer import SqlScorer
from dphrl.scoring.verdict import Scorer, Verdict
from dphrl.store.verdicts import VERDICTS

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
        if databases is None:
            raise ValueError("task 'sql' needs the folder of its databases")
        return SqlScorer(databases, workers=workers, programs=programs, **settings)
    if task == "math":
        return MathScorer(workers=workers, **settings)
    if source is None:
        raise ValueError(f"task {task!r}: expected 'sql' or 'math', or the file of a custom scorer")
    return load_scorer(task, source, settings["options"])


class CustomScorer(Scorer):
    """Base of custom scorers; `scoring.custom.<name>.options` are the arguments of `__init__`.

    It runs in the scoring job itself. A scorer that executes model output must do so in separate processes under
    limits, as `SqlScorer` does.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "score" in cls.__dict__:
            cls.score = _checked(cls.score)  # type: ignore[method-assign]

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        raise NotImplementedError

    def response_to(self, ground_truth: Mapping[str, Any]) -> str | None:
        """A response that must be judged correct, so that gold answers can be audited; None: no audit."""
        return None

    def audit(self, ground_truths: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """For each gold answer the verdict on its `response_to`, and `unrunnable` where that is not `correct`."""
        responses = [self.response_to(truth) for truth in ground_truths]
        asked = [(text, truth) for text, truth in zip(responses, ground_truths, strict=True) if text is not None]
        verdicts = iter(self.score([text for text, _ in asked], [truth for _, truth in asked]))
        names = ["correct" if text is None else next(verdicts).verdict for text in responses]
        return [(verdict, None if verdict == "correct" else "unrunnable") for verdict in names]

    def close(self) -> None:
        """Release the scorer's resources."""


def _checked(score: Callable[..., list[Verdict]]) -> Callable[..., list[Verdict]]:
    """`score`, which raises `TypeError` or `ValueError` unless it returns one `Verdict` for each response."""

    @wraps(score)
    def judged(scorer: CustomScorer, responses: Sequence[str], truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        returned: Any = score(scorer, responses, truths)
        where = f"{inspect.getsourcefile(score)}: {type(scorer).__name__}.score"
        expected = "expected one Verdict for each response, in their order"
        if not isinstance(returned, Iterable):
            raise TypeError(f"{where} returned {returned!r:.60}: {expected}")
        verdicts: list[Any] = list(returned)
        for index, verdict in enumerate(verdicts):
            if not isinstance(verdict, Verdict):
                shown = f"{verdict!r:.60} ({type(verdict).__name__}) for response {index}"
                example = "Verdict('correct', True, 1.0) or Verdict('wrong', False, 0.0)"
                raise TypeError(f"{where} returned {shown}: {expected}, for instance {example}")
            if verdict.verdict not in VERDICTS:
                raise ValueError(f"{where} returned the verdict {verdict.verdict!r}: expected {', '.join(VERDICTS)}")
            texts = (verdict.extracted, verdict.answer_class, verdict.program_class, verdict.detail)
            # NumPy's bool too; a worker process does not import it.
            typed = type(verdict.correct).__name__ in ("bool", "bool_") and isinstance(verdict.reward, Real)
            if not (typed and 0.0 <= verdict.reward <= 1.0 and all(isinstance(text, str | None) for text in texts)):
                raise ValueError(
                    f"{where} returned {verdict!r:.300} for response {index}: expected correct as True or False, a"
                    " reward from 0 to 1, and texts"
                )
        if len(verdicts) != len(responses):
            raise ValueError(f"{where} returned {len(verdicts)} verdicts for {len(responses)} responses: {expected}")
        return verdicts

    return judged


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
