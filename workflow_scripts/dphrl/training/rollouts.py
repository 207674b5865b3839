"""Rollouts: the prompts that a training answers, and their scored responses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dphrl.config.blocks.training import TrainConfig
from dphrl.objective.advantages import informative
from dphrl.policy.requests import Completion, Request, sample_seed
from dphrl.scoring.verdict import Verdict

Score = Callable[[Sequence[str], Sequence[Mapping[str, Any]], Sequence[bool]], Sequence[Verdict]]
"""Responses, ground truths, and whether the prompts end inside of a thought, to verdicts."""


@dataclass(frozen=True)
class OnlinePrompt:
    """A prompt that is rolled out, whether it ends inside of a thought, and its ground truth for the scorer."""

    prompt_id: str
    tokens: Sequence[int]
    thought_open: bool
    ground_truth: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """A prompt with its responses and their verdicts."""

    prompt: OnlinePrompt
    completions: Sequence[Completion]
    verdicts: Sequence[Verdict]

    @property
    def is_informative(self) -> bool:
        """Whether its responses are neither all right nor all wrong."""
        return bool(informative(torch.tensor([[bool(verdict.correct) for verdict in self.verdicts]])))


def rollout_request(
    config: TrainConfig, seed: int, place: tuple[object, ...], prompt: OnlinePrompt, sample: int
) -> Request:
    """One response to a prompt, drawn with the settings of the rollouts.

    Args:
        seed: of the training.
        place: the use of the response, such as a step: with prompt and sample it decides the seed of the response.
    """
    return Request(
        prompt.prompt_id,
        sample,
        prompt.tokens,
        seed=sample_seed(seed, *place, prompt.prompt_id, sample),
        temperature=config.temperature,
        top_p=config.top_p,
        max_tokens=config.max_tokens,
    )
