"""A segment: some steps of one training, from the state before it to the state after it."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import polars as pl
import torch
from torch import Tensor

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.progress import ProgressLines
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.model.batch import Row
from dphrl.objective.advantages import group_advantages, k1_penalties, overlong_penalty
from dphrl.objective.importance import mismatch
from dphrl.objective.plug import Advantage, advantage_of
from dphrl.ranks.collectives import all_gather, all_reduce_max, all_reduce_sum, rank, world_size
from dphrl.reference.responses import ReferenceResponses
from dphrl.rollout.engine import Engine
from dphrl.training.loss import Example
from dphrl.training.probes import Probes
from dphrl.training.rollouts import Collector, Group, OnlinePrompt, Score
from dphrl.training.schedule import epoch_indices, learning_rate
from dphrl.training.trackers import Sampled, Track
from dphrl.training.trainer import Trainer, Update
from dphrl.training.weight_sync import WeightSync

# Rollouts that trackers show of each step.
_SHOWN_GROUPS, _SHOWN_CHARACTERS = 3, 4000
# Metrics that are means: the total, and the count that it is divided by.
_MEANS = {
    "reward": ("reward_sum", "responses"),
    "correct": ("correct_sum", "responses"),
    "constants": ("constant_sum", "executed_right"),
    "solved_share": ("solved_sum", "groups"),
    "mixed_share": ("mixed_sum", "groups"),
    "response_length": ("length_sum", "responses"),
    "truncated_share": ("truncated_sum", "responses"),
    "entropy": ("entropy_sum", "rollout_tokens"),
    "policy_loss": ("policy_loss_sum", "rollout_tokens"),
    "clip_share": ("clipped_sum", "rollout_tokens"),
    "kl_to_old": ("kl_to_old_sum", "rollout_tokens"),
    "rollout_divergence": ("rollout_divergence_sum", "rollout_tokens"),
    "off_policy_capped": ("off_policy_capped_sum", "rollout_tokens"),
    "divergence": ("divergence_sum", "rehearsal_tokens"),
    "rehearsal_token_ratio": ("rehearsal_tokens", "rollout_tokens"),
}
# Counts per step: prompts, rollouts and tokens, with the groups that dynamic sampling dropped.
_USED = {
    "prompts": "groups",
    "rollouts": "responses",
    "drawn_tokens": "length_sum",
    "stored_tokens": "rehearsal_tokens",
}


@dataclass
class Segment:
    """The parts of a training step; with several ranks, those of this rank.

    Attributes:
        prompts: the online prompts, in key order.
        rehearsal: the reference responses of D_pef; None for a method that does not rehearse.
        score: responses and ground truths to verdicts.
        track: receives the metrics, speed and some rollouts of each step while training runs.
        start: for an engine that sleeps, `start` of `WeightSync`.
        probes: what is measured at some steps; None: nothing.
        seconds, tokens: by part: generate, score, train, push, probe.
    """

    trainer: Trainer
    engine: Engine
    prompts: Sequence[OnlinePrompt]
    rehearsal: ReferenceResponses | None
    score: Score
    config: TrainConfig
    method: MethodConfig
    seed: int
    track: Track = lambda step, metrics, rollouts: None
    start: Tensor | None = None
    probes: Probes | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, first: int, last: int, label: str) -> pl.DataFrame:
        """Train steps `first` to `last`, both included; the metrics table (step, metric, value)."""
        texts, tolerance = [prompt.tokens for prompt in self.prompts], self.trainer.hardware.canary_tolerance
        sync = WeightSync(self.trainer, self.engine, tolerance, texts, self.start)
        sync.control()  # first prove that the check notices wrong weights
        collector = Collector(
            self.engine, self.prompts, self.score, self.config, self.method, self.seed, timed=self._timed
        )
        if first == 1:
            self._probe(0, sync)
        rows: list[tuple[int, str, float]] = []
        progress = ProgressLines(total=last - first + 1, desc=label, unit=" step", disable=rank() > 0)
        for step in range(first, last + 1):
            before = dict(self.seconds), dict(self.tokens)
            with self._timed("push"):
                canary_gap = sync.push(step)

            groups = collector.score(collector.roll_out(step))
            groups, left_out = collector.refill(step, groups)  # DAPO only: without refills, groups stay as they are
            self.engine.sleep()  # frees its memory for the training; the next push wakes it

            with self._timed("train"):
                examples = self._examples(groups)
                advantages = self._advantages(groups, examples)
                examples = [replace(e, advantage=a) for e, a in zip(examples, advantages, strict=True)]
                shares = self._gradient_share(step, examples)
                updates, log_ratios = self._update(step, examples)  # also fills in each missing `old`

            metrics = self._metrics(groups, left_out, examples, updates) | spread(log_ratios)
            metrics["canary_gap"] = all_reduce_max(canary_gap)
            metrics |= shares | self._probe(step, sync)
            rows += [(step, name, float(value)) for name, value in metrics.items()]
            rate = self.tokens["generate"] / max(self.seconds["generate"], 1e-9)
            self.track(step, {**metrics, **self._speed(before)}, _some(groups))
            progress.set_postfix_str(f"reward {metrics['reward']:.2f}, {rate:.0f} generated tok/s", refresh=False)
            progress.update()
        progress.close()
        return SCHEMAS["metrics"].frame(rows)

    def _examples(self, groups: Sequence[Group]) -> list[Example]:
        """The rollouts with the log-probs that their loss needs, still without advantages."""
        rows = [Row(group.prompt.tokens, c.token_ids) for group in groups for c in group.completions]
        sampler = [torch.tensor(c.logprobs) for group in groups for c in group.completions]
        nothing = [None] * len(rows)
        reference = self.trainer.reference_logprobs(rows) if self.method.needs_reference_model else nothing
        # pi_old is the trainer's own forward pass under the sampling weights. The first mini-batch gets it from its
        # update, unless its log-probs are part of the advantages, or some of its rows may have no update.
        separate = self.method.in_advantage or self.method.dynamic_sampling_rounds
        size = len(rows) // self.config.mini_batches
        known = 0 if separate else size
        # In bfloat16 rounding depends on the rows of a pass, so `old` is computed in the passes of its update: its
        # noise would be in the ratio. In float32 it is below 1e-6, and fewer passes are faster.
        at_once = size if self.config.dtype == "bfloat16" else len(rows)
        old: list[Tensor | None] = [*nothing[:known]]
        for start in range(known, len(rows), at_once):
            old += self.trainer.logprobs(rows[start : start + at_once])
        # Dynamic sampling trains on informative groups alone: a place that it could not fill counts nowhere.
        keeps_all = not self.method.dynamic_sampling_rounds
        filled = [keeps_all or group.is_informative for group in groups for _ in group.completions]
        return [
            Example(row, old=ours, sampler=drawn, reference=theirs, counted=counted)
            for row, ours, drawn, theirs, counted in zip(rows, old, sampler, reference, filled, strict=True)
        ]

    def _advantages(self, groups: Sequence[Group], examples: Sequence[Example]) -> Sequence[float | Tensor]:
        """The advantage of each response, or of its tokens, from its reward and what the method adds to it."""
        rewards = torch.tensor([[v.reward for v in group.verdicts] for group in groups], dtype=torch.float64)
        if self.method.overlong_buffer:
            lengths = torch.tensor([[len(c.token_ids) for c in group.completions] for group in groups])
            rewards += overlong_penalty(lengths, self.config.max_tokens, self.method.overlong_buffer)
        advantages = self._group_advantages(rewards).flatten()
        if not self.method.in_advantage:
            return advantages.tolist()
        # Not in the reward, where the division by the group's std would make eta as strong as the rewards are alike.
        log_ratios = [e.old - e.reference for e in examples]  # type: ignore[operator]
        penalties = k1_penalties(log_ratios, rewards.shape[1], to_go=self.method.estimator == "to_go")
        return [reward - self.method.eta * k1 for reward, k1 in zip(advantages, penalties, strict=True)]

    @cached_property
    def _group_advantages(self) -> Advantage:
        """From rewards of whole groups to advantages: GRPO's, or the user's function."""
        if self.method.advantage:
            return advantage_of(self.method.advantage)
        return partial(group_advantages, std=self.method.advantage_std)

    def _update(self, step: int, examples: list[Example]) -> tuple[list[Update], list[Tensor]]:
        """The updates of a step, each on a mini-batch of rollouts and rehearsal; fills in `old` where it is None.

        Returns:
            The updates, and of each stored response l = log pi_theta - log pi_ref of its tokens before its update.
        """
        parts = self.config.mini_batches
        size = len(examples) // parts
        rehearsal = self._rehearsal(step)
        lr = learning_rate(step, self.config.lr, self.config.warmup_steps)
        updates, log_ratios = [], list[Tensor]()
        for _ in range(self.config.ppo_epochs):
            for part in range(parts):
                mini_batch = slice(part * size, (part + 1) * size)
                rollouts = examples[mini_batch]
                update = self.trainer.update([*rollouts, *rehearsal[part]], lr)
                if rollouts[0].old is None:
                    old = update.logprobs[:size]
                    examples[mini_batch] = [replace(e, old=ours) for e, ours in zip(rollouts, old, strict=True)]
                updates.append(update)
                pairs = zip(rehearsal[part], update.logprobs[size:], strict=True)
                log_ratios += [ours - example.reference for example, ours in pairs]  # type: ignore[operator]
        return updates, log_ratios

    def _gradient_share(self, step: int, examples: Sequence[Example]) -> dict[str, float]:
        """The divergence's share of the gradient on the first mini-batch of a step whose probes measure it."""
        if self.probes is None or not (self.config.probe.gradient and self.probes.due(step)):
            return {}
        size = len(examples) // self.config.mini_batches
        share = self.trainer.divergence_share([*examples[:size], *self._rehearsal(step)[0]])
        return {} if share is None else {"divergence_gradient_share": share}

    def _probe(self, step: int, sync: WeightSync) -> dict[str, float]:
        """What the probes show of the current weights, after this step; empty where they are not due."""
        if self.probes is None or not self.probes.due(step):
            return {}
        with self._timed("push"):
            sync.push(step)
        with self._timed("probe"):
            return self.probes.measure(step)

    def _rehearsal(self, step: int) -> list[list[Example]]:
        """This rank's share of the rehearsed responses of each mini-batch."""
        parts, responses = self.config.mini_batches, self.rehearsal
        if responses is None:
            return [[] for _ in range(parts)]
        drawn = epoch_indices(self.seed, "rehearsal", step, self.config.rehearsal_per_step, len(responses))
        mini_batches = []
        for part in range(parts):
            numbers = drawn[part::parts][rank() :: world_size()]
            topk = zip(*responses.topk(numbers), strict=True) if self.method.topk_estimator else [None] * len(numbers)
            rows = zip(*responses.rows(numbers), topk, strict=True)
            mini_batches.append([Example(row, True, reference=logprobs, topk=top) for row, logprobs, top in rows])
        return mini_batches

    def _metrics(
        self, groups: Sequence[Group], left_out: Sequence[Group], examples: Sequence[Example], updates: Sequence[Update]
    ) -> dict[str, float]:
        """The metrics of a step over all ranks; those of the rollouts include what dynamic sampling left out."""
        sums = rollout_sums([*groups, *left_out])
        totals: dict[str, float] = defaultdict(float)
        for update in updates:
            for name, value in update.totals.items():
                totals[name] += value
        totals |= all_reduce_sum({**sums, "refilled": len(left_out)})
        self.tokens["generate"] += int(sums["length_sum"])
        self.tokens["train"] += int(totals["rollout_tokens"] + totals.get("rehearsal_tokens", 0))
        sampler = torch.cat([e.sampler for e in examples if e.sampler is not None])
        gap = mismatch(torch.cat([e.old for e in examples if e.old is not None]), sampler)
        ranks = world_size()
        norms = [update.grad_norm for update in updates if math.isfinite(update.grad_norm)]
        return {
            **averages(totals),
            **all_reduce_sum({"sampler_gap_mean": gap.mean / ranks, "sampler_ess": gap.ess / ranks}),
            "sampler_gap_max": all_reduce_max(gap.max),
            "grad_norm": sum(norms) / max(len(norms), 1),
            "skipped_updates": len(updates) - len(norms),
        }

    def _speed(self, before: tuple[dict[str, float], dict[str, int]]) -> dict[str, float]:
        """Seconds of each part of a step, tokens/s of all ranks, and this rank's peak of GPU memory in GiB."""
        seconds = {part: spent for part in self.seconds if (spent := self.seconds[part] - before[0].get(part, 0.0))}
        tokens = {part: self.tokens[part] - before[1].get(part, 0) for part in self.tokens}
        rates = {f"tokens_per_s/{part}": count / max(seconds[part], 1e-9) for part, count in tokens.items()}
        memory = {"gpu_gib": torch.cuda.max_memory_reserved() / 2**30} if torch.cuda.is_available() else {}
        return {**{f"seconds/{part}": value for part, value in seconds.items()}, **rates, **memory}

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start


def _some(groups: Sequence[Group]) -> list[Sampled]:
    """The first rollout of each of the first groups."""
    return [
        Sampled(group.prompt.prompt_id, group.verdicts[0].reward, group.completions[0].text[:_SHOWN_CHARACTERS])
        for group in groups[:_SHOWN_GROUPS]
    ]


def spread(log_ratios: Sequence[Tensor]) -> dict[str, float]:
    """Mean, 99th percentile and maximum of l over the tokens of stored responses on all ranks; empty without any.

    A divergence is an expectation over these tokens: few with a large l can make most of it.
    """
    of_ranks = all_gather(torch.cat([*log_ratios, torch.empty(0)]).tolist())
    tokens = np.concatenate(of_ranks)
    if not len(tokens):
        return {}
    return {"l_mean": tokens.mean(), "l_p99": np.percentile(tokens, 99), "l_max": tokens.max()}


def rollout_sums(groups: Sequence[Group]) -> dict[str, float]:
    """Sums and counts over the rollouts of a step, for `averages`."""
    rewards = [[verdict.reward for verdict in group.verdicts] for group in groups]
    right = [verdict for group in groups for verdict in group.verdicts if verdict.correct]
    verdicts = [[verdict.correct for verdict in group.verdicts] for group in groups]
    completions = [completion for group in groups for completion in group.completions]
    return {
        "groups": len(groups),
        "responses": len(completions),
        "reward_sum": sum(map(sum, rewards)),
        "correct_sum": len(right),
        "executed_right": sum(verdict.reads_table is not None for verdict in right),
        "constant_sum": sum(verdict.reads_table is False for verdict in right),
        "solved_sum": sum(map(any, verdicts)),
        "mixed_sum": sum(any(group) and not all(group) for group in verdicts),
        "length_sum": sum(len(completion.token_ids) for completion in completions),
        "truncated_sum": sum(completion.finish_reason == "length" for completion in completions),
    }


def averages(totals: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step from totals over all ranks: those of `rollout_sums`, of its updates, and `refilled`."""
    present = {name: pair for name, pair in _MEANS.items() if totals.keys() >= {*pair} and totals[pair[1]]}
    means = {name: totals[total] / totals[count] for name, (total, count) in present.items()}
    used = {name: totals[count] for name, count in _USED.items() if count in totals}
    return {**means, **used, "refilled": totals["refilled"]}
