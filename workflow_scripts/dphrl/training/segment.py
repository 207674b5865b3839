"""A segment: some steps of one training, from the state before it to the state after it."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import polars as pl
import torch
from torch import Tensor

from dphrl.artifacts.progress import ProgressLines
from dphrl.config.blocks.methods import MethodConfig
from dphrl.config.blocks.train import TrainConfig
from dphrl.model.batch import Row
from dphrl.objective.advantages import group_advantages, overlong_penalty, reward_k1
from dphrl.objective.importance import mismatch
from dphrl.reference.responses import ReferenceResponses
from dphrl.rollout.engine import Engine
from dphrl.training.collectives import largest, rank, summed, world_size
from dphrl.training.loss import Example
from dphrl.training.metrics import averages, of_rollouts
from dphrl.training.rollouts import Collector, Group, OnlinePrompt, Score
from dphrl.training.schedule import draw, learning_rate
from dphrl.training.trainer import Trainer
from dphrl.training.weight_sync import WeightSync


@dataclass
class Segment:
    """The parts that a training step is made of; with several ranks, this rank's.

    Attributes:
        prompts: the online prompts, in key order.
        reference: the stored responses; None for a method that does not rehearse.
        score: responses and ground truths to verdicts.
        track: shown each step's metrics while training runs.
        seconds, tokens: where the time went, by part: generate, score, train, push.
    """

    trainer: Trainer
    engine: Engine
    prompts: Sequence[OnlinePrompt]
    reference: ReferenceResponses | None
    score: Score
    config: TrainConfig
    method: MethodConfig
    seed: int
    track: Callable[[int, Mapping[str, float]], None] = lambda step, metrics: None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, first: int, last: int, label: str) -> pl.DataFrame:
        """Steps `first` to `last`, both included; the metrics table (step, metric, value)."""
        sync = WeightSync(self.trainer, self.engine, self.config.canary_tolerance, [p.tokens for p in self.prompts])
        sync.control()
        rows = []
        bar = ProgressLines(total=last - first + 1, desc=label, unit=" step", disable=rank() > 0)
        for step in range(first, last + 1):
            with self._part("push"):
                gap = sync.push(step)
            metrics = {**self._step(step), "canary_gap": largest(gap)}
            rows += [(step, name, float(value)) for name, value in metrics.items()]
            self.track(step, metrics)
            rate = self.tokens["generate"] / max(self.seconds["generate"], 1e-9)
            bar.set_postfix_str(f"reward {metrics['reward']:.2f}, {rate:.0f} generated tok/s", refresh=False)
            bar.update()
        bar.close()
        return pl.DataFrame(rows, schema={"step": pl.Int32, "metric": pl.String, "value": pl.Float64}, orient="row")

    def _step(self, step: int) -> dict[str, float]:
        collector = Collector(
            self.engine, self.prompts, self.score, self.config, self.method, self.seed, timed=self._part
        )
        groups, left = collector.collect(step)
        self.engine.sleep()
        drawn = [*groups, *left]
        self.tokens["generate"] += sum(len(c.token_ids) for group in drawn for c in group.completions)
        with self._part("train"):
            totals, extremes = self._train(step, groups)
        totals |= summed({**of_rollouts(drawn), "refilled": len(left)})
        self.tokens["train"] += int(totals["rollout_tokens"] + totals.get("stored_tokens", 0))
        return {**averages(totals), **extremes}

    def _train(self, step: int, groups: Sequence[Group]) -> tuple[dict[str, float], dict[str, float]]:
        """The updates of a step, each mini-batch with its share of both kinds of rows: totals, and what has no sum."""
        parts, epochs = self.config.mini_batches, self.config.epochs
        rows = [Row(g.prompt.tokens, c.token_ids) for g in groups for c in g.completions]
        size = len(rows) // parts
        reference = self.trainer.reference_logprobs(rows) if self.method.needs_reference_model else [None] * len(rows)
        # pi_old is the trainer's own forward pass under the sampling weights. The first mini-batch makes its own,
        # unless its log-probs are part of the reward.
        known = 0 if self.method.estimator == "reward_k1" else size
        old: list[Tensor | None] = [None] * known + list(self.trainer.logprobs(rows[known:]))
        advantages = self._advantages(groups, old, reference)
        sampler = [torch.tensor(c.logprobs) for g in groups for c in g.completions]
        stored = self._stored(step)
        lr = learning_rate(step, self.config.lr, self.config.warmup_steps)
        totals: dict[str, float] = defaultdict(float)
        norms = []
        for _ in range(epochs):
            for part in range(parts):
                batch = [
                    Example(rows[i], False, advantages[i], old[i], sampler[i], reference[i])
                    for i in range(part * size, (part + 1) * size)
                ]
                update = self.trainer.update([*batch, *stored[part]], lr)
                if old[part * size] is None:
                    old[part * size : (part + 1) * size] = update.logprobs[:size]
                norms.append(update.grad_norm)
                for name, value in update.totals.items():
                    totals[name] += value
        found = mismatch(torch.cat([part for part in old if part is not None]), torch.cat(sampler))
        ranks = world_size()
        averaged = summed({"sampler_gap_mean": found.mean / ranks, "sampler_ess": found.ess / ranks})
        taken = [norm for norm in norms if math.isfinite(norm)]
        return totals, {
            **averaged,
            "sampler_gap_max": largest(found.max),
            "grad_norm": sum(taken) / max(len(taken), 1),
            "skipped_updates": len(norms) - len(taken),
        }

    def _advantages(
        self, groups: Sequence[Group], old: Sequence[Tensor | None], reference: Sequence[Tensor | None]
    ) -> list[float]:
        """The advantage of each response, from its verdict and what the method adds to it."""
        rewards = torch.tensor([[v.reward for v in group.verdicts] for group in groups], dtype=torch.float64)
        if self.method.overlong_buffer:
            lengths = torch.tensor([[len(c.token_ids) for c in group.completions] for group in groups])
            rewards += overlong_penalty(lengths, self.config.max_tokens, self.method.overlong_buffer)
        if self.method.estimator == "reward_k1":
            ratios = [ours - theirs for ours, theirs in zip(old, reference, strict=True)]  # type: ignore[operator]
            divergence = reward_k1(torch.cat(ratios), [len(part) for part in ratios])
            rewards -= self.method.eta * divergence.view_as(rewards)
        return group_advantages(rewards, std=self.method.advantage_std).flatten().tolist()

    def _stored(self, step: int) -> list[list[Example]]:
        """This rank's share of the stored responses of each mini-batch."""
        parts = self.config.mini_batches
        if self.reference is None:
            return [[] for _ in range(parts)]
        drawn = draw(self.seed, "rehearsal", step, self.config.rehearsal_per_step, len(self.reference))
        return [self._examples(self.reference, drawn[part::parts][rank() :: world_size()]) for part in range(parts)]

    def _examples(self, reference: ReferenceResponses, numbers: Sequence[int]) -> list[Example]:
        rows, logprobs = reference.rows(numbers)
        topk = list(zip(*reference.topk(numbers), strict=True)) if self.method.topk else [None] * len(rows)
        return [
            Example(row, stored=True, reference=of_row, topk=likeliest)
            for row, of_row, likeliest in zip(rows, logprobs, topk, strict=True)
        ]

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start
