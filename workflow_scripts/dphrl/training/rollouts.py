"""The rollouts of a step: drawn, scored and, for DAPO, refilled until every group is informative."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.objective.advantages import informative
from dphrl.ranks.collectives import rank, world_size
from dphrl.rollout.engine import Engine
from dphrl.rollout.requests import Completion, Request, sample_seed
from dphrl.scoring.verdict import Verdict
from dphrl.training.schedule import epoch_indices

Score = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], Sequence[Verdict]]
Timed = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class OnlinePrompt:
    """A prompt that is rolled out, and its ground truth for the scorer."""

    prompt_id: str
    tokens: Sequence[int]
    ground_truth: Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """A prompt with its responses and, once scored, their verdicts."""

    prompt: OnlinePrompt
    completions: Sequence[Completion]
    verdicts: Sequence[Verdict] = ()

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
        place: what the response is for, such as a step: with prompt and sample it decides the seed of the response.
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


@dataclass(frozen=True)
class Collector:
    """Draws and scores this rank's share of the prompts of a step.

    Attributes:
        prompts, scorer: `prompts` and `score` of `Segment`.
        timed: a context manager for the parts "generate" and "score".
    """

    engine: Engine
    prompts: Sequence[OnlinePrompt]
    scorer: Score
    config: TrainConfig
    method: MethodConfig
    seed: int
    timed: Timed

    def roll_out(self, step: int, refill: int = 0, wanted: int | None = None) -> list[Group]:
        """Responses to the first `wanted` (None: all) of this rank's prompts of a step, or of one of its refills."""
        label = f"refill {refill}" if refill else "prompts"
        drawn = epoch_indices(self.seed, label, step, self.config.prompts_per_step, len(self.prompts))
        share = [*enumerate(drawn)][rank() :: world_size()][:wanted]
        size = self.config.rollouts_per_prompt
        with self.timed("generate"):
            # The position is in the seed: in a small set a prompt can come twice in a step.
            requests = [
                rollout_request(self.config, self.seed, ("train", step, refill, position), self.prompts[index], sample)
                for position, index in share
                for sample in range(size)
            ]
            completions = self.engine.generate(requests)
        return [
            Group(self.prompts[index], completions[i * size : (i + 1) * size]) for i, (_, index) in enumerate(share)
        ]

    def score(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with their verdicts."""
        with self.timed("score"):
            texts = [completion.text for group in groups for completion in group.completions]
            truths = [group.prompt.ground_truth for group in groups for _ in group.completions]
            verdicts = iter(self.scorer(texts, truths))
        return [replace(group, verdicts=[*islice(verdicts, len(group.completions))]) for group in groups]

    def refill(self, step: int, groups: Sequence[Group]) -> tuple[list[Group], list[Group]]:
        """Dynamic sampling (DAPO): the groups that a step trains on, and those that it leaves out.

        A group whose responses are all right or all wrong is replaced by the next informative group of up to
        `dynamic_sampling_rounds` further rounds. If these bring too few, the first groups stay in their places, but are
        not trained on.
        """
        kept, left_out = list(groups), list[Group]()
        for refill in range(1, self.method.dynamic_sampling_rounds + 1):
            places = [i for i, group in enumerate(kept) if not group.is_informative]
            if not places:
                break
            for group in self.score(self.roll_out(step, refill, len(places))):
                if group.is_informative:
                    place = places.pop(0)
                    left_out.append(kept[place])
                    kept[place] = group
                else:
                    left_out.append(group)
        return kept, left_out
