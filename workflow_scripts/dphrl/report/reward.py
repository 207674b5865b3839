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
from dphrl.scoring.verdict import Scorer, score_answers

# verl judges in threads; the worker processes answer one caller at a time.
_lock = Lock()


def reward(
    completions: Sequence[Any], ground_truth: Sequence[str], thought_open: Sequence[bool], **_: Any
) -> list[float]:
    """Rewards of completions, as the run gives them.

    Args:
        completions: texts, or lists of messages of which the last one is judged.
        ground_truth, thought_open: these columns of the prompts, a JSON text and a bool for each completion.

    Raises:
        ValueError: the lengths differ, or a ground truth lacks a field.
        InfrastructureError: the judge failed by no fault of a completion.
    """
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    with _lock:
        scorer, thoughts = _judge()
        verdicts = score_answers(scorer, thoughts, texts, [json.loads(truth) for truth in ground_truth], thought_open)
    return [verdict.reward for verdict in verdicts]


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any], **_: Any
) -> float:
    """Reward of one completion; arguments as verl passes them, errors as for `reward`."""
    return reward([solution_str], [ground_truth], [extra_info["thought_open"]])[0]


@cache
def _judge() -> tuple[Scorer, Mapping[str, str]]:
    here = Path(__file__).parent
    judge = json.loads((here / "scorer.json").read_text(encoding="utf-8"))
    files = {"databases": judge["databases"], "source": judge["source"] and here / judge["source"]}
    scorer = make_scorer(judge["task"], judge["settings"], workers=judge["workers"], programs=False, **files)
    return scorer, judge["thoughts"]
