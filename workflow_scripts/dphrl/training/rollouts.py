"""Rollouts: the prompts that a training answers, and their scored responses."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dphrl.config.blocks.training import TrainConfig
from dphrl.objective.advantages import ScoredGroup
from dphrl.policy.requests import Completion, Request, sample_seed
from dphrl.scoring.verdict import Verdict

Score = Callable[[Sequence[str], Sequence[Mapping[str, Any]], Sequence[bool]], Sequence[Verdict]]
"""Responses, ground truths, and whether the prompts end inside of a thought, to verdicts."""


@dataclass(frozen=True)
class OnlinePrompt:
    """A prompt that is rolled out.

    Attributes:
        thought_open: it ends inside of a thought.
        ground_truth: for the scorer.
        base_right, base_n: right pre-samples of the base, and all.
    """

    prompt_id: str
    tokens: Sequence[int]
    thought_open: bool
    ground_truth: Mapping[str, Any]
    base_right: int = 0
    base_n: int = 0


@dataclass(frozen=True)
class Group:
    """A prompt with its responses and their verdicts."""

    prompt: OnlinePrompt
    completions: Sequence[Completion]
    verdicts: Sequence[Verdict]

    @property
    def is_informative(self) -> bool:
        """Whether its rewards differ: without partial credit, neither all right nor all wrong (DAPO).

        With partial credit GRPO trains on wrong answers that differ, so that dynamic sampling keeps these too.
        """
        return len({verdict.reward for verdict in self.verdicts}) > 1


def scored_group(
    group: Group,
    rewards: Tensor,
    old: Sequence[Tensor | None],
    reference: Sequence[Tensor | None],
    *,
    step: int,
    needs: Collection[str],
) -> ScoredGroup:
    """A group as a user's function of advantages gets it.

    Args:
        rewards: float64 (responses,), shaped.
        old, reference: of each response the log-probs of its tokens.
        needs: `advantage_needs` of the method.
    """
    completions, verdicts = group.completions, group.verdicts
    base = "base" in needs
    return ScoredGroup(
        torch.tensor([verdict.correct for verdict in verdicts]),
        rewards.clone(),
        lengths=torch.tensor([len(completion.token_ids) for completion in completions]),
        finished=torch.tensor([completion.finish_reason == "stop" for completion in completions]),
        answers=_classes([verdict.answer_class for verdict in verdicts]),
        step=step,
        programs=_classes([verdict.program_class for verdict in verdicts]) if "programs" in needs else None,
        base_right=group.prompt.base_right if base else None,
        base_n=group.prompt.base_n if base else None,
        logprobs=_sums(old) if "logprobs" in needs else None,
        reference=_sums(reference) if "reference" in needs else None,
    )


def _classes(names: Sequence[str | None]) -> Tensor:
    """Equal numbers for equal names, in the order of their first place; -1 for None."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name is not None))}
    return torch.tensor([-1 if name is None else numbers[name] for name in names])


def _sums(logprobs: Sequence[Tensor | None]) -> Tensor:
    """Log-probs of whole responses."""
    return torch.stack([of_tokens.double().sum() for of_tokens in logprobs if of_tokens is not None]).cpu()


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
