"""A segment: some steps of one training, from the state before it to the state after it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl
import torch
from torch import Tensor

from dphrl.artifacts import ProgressLines
from dphrl.config.methods import MethodConfig
from dphrl.config.train import TrainConfig
from dphrl.model import Row
from dphrl.objective import group_advantages
from dphrl.reference import ReferenceResponses
from dphrl.rollout import Completion, Request, VllmEngine, sample_seed
from dphrl.training.canary import WeightSync
from dphrl.training.schedule import draw, learning_rate
from dphrl.training.trainer import Example, Trainer


class Judged(Protocol):
    """What training needs of a verdict."""

    @property
    def correct(self) -> bool:
        """Whether the response is right."""

    @property
    def reward(self) -> float:
        """What it is worth, in [0, 1]."""


Score = Callable[[Sequence[str], Sequence[Mapping[str, Any]]], Sequence[Judged]]


@dataclass(frozen=True)
class OnlinePrompt:
    """A prompt that is rolled out, with what its scorer needs."""

    prompt_id: str
    tokens: Sequence[int]
    ground_truth: Mapping[str, Any]


@dataclass
class Segment:
    """The parts that a training step is made of.

    Attributes:
        prompts: the online prompts, in key order.
        reference: the stored responses; None for a method without a divergence.
        score: responses and ground truths to verdicts.
        seconds, tokens: where the time went, by part: generate, score, train, push.
    """

    trainer: Trainer
    engine: VllmEngine
    prompts: Sequence[OnlinePrompt]
    reference: ReferenceResponses | None
    score: Score
    config: TrainConfig
    method: MethodConfig
    seed: int
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, first: int, last: int, label: str) -> pl.DataFrame:
        """Steps `first` to `last`, both included; the metrics table (step, metric, value)."""
        sync = WeightSync(self.trainer, self.engine, self.config.canary_tolerance, [p.tokens for p in self.prompts])
        sync.control()
        rows = []
        bar = ProgressLines(total=last - first + 1, desc=label, unit=" step")
        for step in range(first, last + 1):
            with self._part("push"):
                gap = sync.push(step)
            metrics = {**self._step(step), "canary_gap": gap}
            rows += [(step, name, float(value)) for name, value in metrics.items()]
            rate = self.tokens["generate"] / max(self.seconds["generate"], 1e-9)
            bar.set_postfix_str(f"reward {metrics['reward']:.2f}, {rate:.0f} generated tok/s", refresh=False)
            bar.update()
        bar.close()
        return pl.DataFrame(rows, schema={"step": pl.Int32, "metric": pl.String, "value": pl.Float64}, orient="row")

    def _step(self, step: int) -> dict[str, float]:
        drawn = draw(self.seed, "prompts", step, self.config.prompts_per_step, len(self.prompts))
        prompts = [self.prompts[i] for i in drawn]
        with self._part("generate"):
            completions = self._generate(step, prompts)
            self.tokens["generate"] += sum(len(c.token_ids) for c in completions)
        group = self.config.rollouts_per_prompt
        with self._part("score"):
            verdicts = self.score(
                [c.text for c in completions], [p.ground_truth for p in prompts for _ in range(group)]
            )
            rewards = torch.tensor([v.reward for v in verdicts], dtype=torch.float64).view(-1, group)
            advantages = group_advantages(rewards).flatten().tolist()
        with self._part("train"):
            rows = [
                Row(p.tokens, c.token_ids)
                for p, c in zip((p for p in prompts for _ in range(group)), completions, strict=True)
            ]
            totals, mismatch = self._train(step, rows, advantages, completions)
            self.tokens["train"] += int(totals["exploration_tokens"] + totals.get("rehearsal_tokens", 0))
        return _metrics(totals, mismatch, rewards, verdicts, completions)

    def _generate(self, step: int, prompts: Sequence[OnlinePrompt]) -> list[Completion]:
        config = self.config
        return self.engine.generate(
            [
                Request(
                    p.prompt_id,
                    sample,
                    p.tokens,
                    # The position is in the seed: in a small set a prompt can come twice in a step.
                    seed=sample_seed(self.seed, "train", step, position, p.prompt_id, sample),
                    temperature=config.temperature,
                    top_p=config.top_p,
                    max_tokens=config.max_tokens,
                )
                for position, p in enumerate(prompts)
                for sample in range(config.rollouts_per_prompt)
            ]
        )

    def _train(
        self, step: int, rows: Sequence[Row], advantages: Sequence[float], completions: Sequence[Completion]
    ) -> tuple[dict[str, float], list[Tensor]]:
        """The updates of a step, each mini-batch with its share of both kinds of rows."""
        parts = self.config.mini_batches
        size = len(rows) // parts
        # pi_old is the trainer's own forward pass under the sampling weights; the first mini-batch makes its own.
        old: list[Tensor | None] = [None] * size + list(self.trainer.logprobs(rows[size:]))
        rehearsal = self._rehearsal(step)
        lr = learning_rate(step, self.config.lr, self.config.warmup_steps)
        totals: dict[str, float] = defaultdict(float)
        for part in range(parts):
            examples = [
                Example(rows[i], advantages[i], old[i]) for i in range(part * size, (part + 1) * size)
            ] + rehearsal[part::parts]
            for name, value in self.trainer.update(examples, lr).items():
                totals[name] += value
        totals["grad_norm"] /= parts
        sampler = [torch.tensor(c.logprobs) for c in completions[size:]]
        return totals, [(ours - theirs).abs() for ours, theirs in zip(old[size:], sampler, strict=True)]  # type: ignore[operator]

    def _rehearsal(self, step: int) -> list[Example]:
        if self.reference is None:
            return []
        numbers = draw(self.seed, "rehearsal", step, self.config.rehearsal_per_step, len(self.reference))
        rows, logprobs = self.reference.rows(numbers)
        return [Example(row, reference=stored) for row, stored in zip(rows, logprobs, strict=True)]

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


def _metrics(
    totals: dict[str, float],
    mismatch: Sequence[Tensor],
    rewards: Tensor,
    verdicts: Sequence[Judged],
    completions: Sequence[Completion],
) -> dict[str, float]:
    tokens = totals["exploration_tokens"]
    lengths = [len(c.token_ids) for c in completions]
    gaps = torch.cat([*mismatch, torch.zeros(0)])
    metrics = {
        "reward": float(rewards.mean()),
        "correct": sum(v.correct for v in verdicts) / len(verdicts),
        "solved_share": float((rewards.amax(dim=1) > 0).double().mean()),
        "mixed_share": float((rewards.amax(dim=1) != rewards.amin(dim=1)).double().mean()),
        "entropy": totals["entropy_sum"] / tokens,
        "policy_loss": totals["policy_loss_sum"] / tokens,
        "clip_share": totals["clipped_sum"] / tokens,
        "kl_to_old": totals["kl_to_old_sum"] / tokens,
        "grad_norm": totals["grad_norm"],
        "response_length": sum(lengths) / len(lengths),
        "truncated_share": sum(c.finish_reason == "length" for c in completions) / len(completions),
    }
    if len(gaps):
        metrics |= {"sampler_gap_mean": float(gaps.mean()), "sampler_gap_max": float(gaps.max())}
    if "rehearsal_tokens" in totals:
        metrics["divergence"] = totals["divergence_sum"] / totals["rehearsal_tokens"]
    return metrics
