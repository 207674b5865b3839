"""The rollouts of a step: drawn, judged and, for DAPO, drawn again until every group can teach something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dphrl.config.blocks.methods import MethodConfig
from dphrl.config.blocks.train import TrainConfig
from dphrl.objective.advantages import informative
from dphrl.rollout.engine import Engine
from dphrl.rollout.requests import Completion, Request, sample_seed
from dphrl.training.collectives import rank, world_size
from dphrl.training.schedule import draw


class Judged(Protocol):
    """What training needs of a verdict."""

    @property
    def correct(self) -> bool:
        """Whether the response is right."""

    @property
    def reward(self) -> float:
        """What it is worth, in [0, 1]."""


Score = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], Sequence[Judged]]
Timed = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class OnlinePrompt:
    """A prompt that is rolled out, with what its scorer needs."""

    prompt_id: str
    tokens: Sequence[int]
    ground_truth: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """A prompt with its responses and their verdicts."""

    prompt: OnlinePrompt
    completions: Sequence[Completion]
    verdicts: Sequence[Judged]


@dataclass(frozen=True)
class Collector:
    """Draws and judges this rank's share of the prompts of a step.

    Attributes:
        prompts: the online prompts, in key order.
        score: responses and ground truths to verdicts.
        timed: a context manager for the parts "generate" and "score".
    """

    engine: Engine
    prompts: Sequence[OnlinePrompt]
    score: Score
    config: TrainConfig
    method: MethodConfig
    seed: int
    timed: Timed

    def collect(self, step: int) -> tuple[list[Group], list[Group]]:
        """The groups that a step trains on, and those that dynamic sampling drew but left out.

        With `refills` each group whose responses are all right or all wrong gives its place to the next one drawn
        that is neither. Where the last refill still lacks one, the first group stays, so that a step has its size.
        """
        kept = self._round(step, 0, self.config.prompts_per_step // world_size())
        left: list[Group] = []
        for refill in range(1, self.method.refills + 1):
            places = [i for i, group in enumerate(kept) if not _teaches(group)]
            if not places:
                break
            for group in self._round(step, refill, len(places)):
                if _teaches(group):
                    place = places.pop(0)
                    left.append(kept[place])
                    kept[place] = group
                else:
                    left.append(group)
        return kept, left

    def _round(self, step: int, refill: int, wanted: int) -> list[Group]:
        """The first `wanted` of this rank's prompts of one round, rolled out and judged."""
        label = f"refill {refill}" if refill else "prompts"
        drawn = draw(self.seed, label, step, self.config.prompts_per_step, len(self.prompts))
        share = [*enumerate(drawn)][rank() :: world_size()][:wanted]
        prompts = [self.prompts[index] for _, index in share]
        size = self.config.rollouts_per_prompt
        with self.timed("generate"):
            # The position is in the seed: in a small set a prompt can come twice in a step.
            requests = [
                self._request(prompt, sample, (step, refill, position))
                for (position, _), prompt in zip(share, prompts, strict=True)
                for sample in range(size)
            ]
            completions = self.engine.generate(requests)
        with self.timed("score"):
            truths = [prompt.ground_truth for prompt in prompts for _ in range(size)]
            verdicts = self.score([completion.text for completion in completions], truths)
        return [
            Group(prompt, completions[i * size : (i + 1) * size], verdicts[i * size : (i + 1) * size])
            for i, prompt in enumerate(prompts)
        ]

    def _request(self, prompt: OnlinePrompt, sample: int, place: tuple[int, int, int]) -> Request:
        return Request(
            prompt.prompt_id,
            sample,
            prompt.tokens,
            seed=sample_seed(self.seed, "train", *place, prompt.prompt_id, sample),
            temperature=self.config.temperature,
            top_p=self.config.top_p,
            max_tokens=self.config.max_tokens,
        )


def _teaches(group: Group) -> bool:
    """Whether its responses are neither all right nor all wrong."""
    return bool(informative(torch.tensor([[bool(verdict.correct) for verdict in group.verdicts]])))
