"""The judge of a run for another trainer: `reward` for TRL, `compute_score` for verl.

`dphrl export` copies this file. It reads scorer.json from its own folder, and needs dphrl but no torch.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict import Scorer

# verl judges in threads; the worker processes answer one caller at a time.
_lock = Lock()


def reward(completions: Sequence[Any], ground_truth: Sequence[str], **_: Any) -> list[float]:
    """Rewards of completions, as the run gives them.

    Args:
        completions: texts, or lists of messages of which the last one is judged.
        ground_truth: the column `ground_truth` of the prompts, one JSON text for each completion.

    Raises:
        ValueError: the lengths differ, or a ground truth lacks a field.
        InfrastructureError: the judge failed by no fault of a completion.
    """
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    with _lock:
        verdicts = _scorer().score(texts, [json.loads(truth) for truth in ground_truth])
    return [verdict.reward for verdict in verdicts]


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None, **_: Any
) -> float:
    """Reward of one completion; arguments as verl passes them, errors as for `reward`."""
    return reward([solution_str], [ground_truth])[0]


@cache
def _scorer() -> Scorer:
    here = Path(__file__).parent
    judge = json.loads((here / "scorer.json").read_text(encoding="utf-8"))
    files = {"databases": judge["databases"], "source": judge["source"] and here / judge["source"]}
    return make_scorer(judge["task"], judge["settings"], workers=judge["workers"], programs=False, **files)
