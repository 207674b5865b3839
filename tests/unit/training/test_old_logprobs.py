"""The log-probs of the policy that sampled: which rows are computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_training import Judgement, likes_even
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.policy.batch import Row
from dphrl.policy.requests import Completion
from dphrl.training.loss import Example
from dphrl.training.rollouts import Group, OnlinePrompt
from dphrl.training.segment import Segment

GROUPS = [
    Group(
        OnlinePrompt(f"p{i}", [3, 4 + i], False, {}),
        [Completion([5 + i, 6 + j], [-1.0, -2.0], "", "stop") for j in range(2)],
        [Judgement(j == 0, float(j == 0)) for j in range(2)],
    )
    for i in range(4)
]


class Passes:
    """A trainer that records the first token of each prompt's responses, for the rows that it computes at once."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        self.calls.append([row.response[0] for row in rows])
        return [torch.full((2,), float(row.response[0])) for row in rows]

    reference_logprobs = logprobs


def _examples(trainer: Any, method: MethodConfig, groups: Sequence[Group] = GROUPS, **config: Any) -> list[Example]:
    """The examples of step 3."""
    settings = TrainConfig(prompts_per_step=4, rollouts_per_prompt=2, **config)
    unused: Any = None
    return Segment(trainer, unused, [], None, likes_even, settings, method, seed=1).examples(groups, 3)


@pytest.mark.parametrize(
    ("config", "method", "expected"),
    [
        # The first of four mini-batches has `old` from its update; the others are computed as they are updated.
        ({"dtype": "bfloat16", "mini_batches": 4}, {}, [[6, 6], [7, 7], [8, 8]]),
        ({"dtype": "float32", "mini_batches": 4}, {}, [[6, 6, 7, 7, 8, 8]]),
        (
            {"dtype": "bfloat16", "mini_batches": 4},
            {"dynamic_sampling_rounds": 1},
            [[5, 5], [6, 6], [7, 7], [8, 8]],
        ),
        ({"dtype": "float32", "mini_batches": 4}, {"dynamic_sampling_rounds": 1}, [[5, 5, 6, 6, 7, 7, 8, 8]]),
        # A single mini-batch needs no further pass.
        ({"mini_batches": 1}, {}, []),
    ],
)
def test_in_bfloat16_each_mini_batch_is_computed_alone_as_in_its_update(
    config: dict[str, Any], method: dict[str, Any], expected: list[list[int]]
) -> None:
    trainer = Passes()
    examples = _examples(trainer, MethodConfig(rollout_on="all", **method), **config)
    assert trainer.calls == expected
    computed = [float(example.old[0]) for example in examples if example.old is not None]
    assert computed == [token for call in expected for token in call]
    # Only the first mini-batch may lack it.
    assert all(example.old is not None for example in examples[len(examples) - len(computed) :])


def test_an_advantage_gets_what_it_needs_of_base_verdicts_and_log_probs(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def seen(group):\n"
        "    of_base = group.base_right / group.base_n\n"
        "    return group.logprobs - 2 * group.reference + of_base + 10 * group.correct + group.step\n"
    )
    method = MethodConfig(advantage=f"{file}:seen", advantage_needs=("base", "logprobs", "reference"))
    groups = [replace(group, prompt=replace(group.prompt, base_right=2, base_n=8)) for group in GROUPS]
    examples = _examples(Passes(), method, groups, mini_batches=1)
    # Each response of prompt i has the log-probs 5 + i and 5 + i; its first response is right.
    expected = [-2.0 * (5 + i) + 0.25 + 10 * (j == 0) + 3 for i in range(4) for j in range(2)]
    assert [example.advantage for example in examples] == expected
    assert all(example.old is not None and example.reference is not None for example in examples)
