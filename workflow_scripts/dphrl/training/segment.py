"""The steps of a training, from rollouts to the optimizer. Read `Segment.run` first: a step is the body of its loop."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl
import torch
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.machine.progress import ProgressLines
from dphrl.objective.advantages import group_advantages, k1_penalties, overlong_penalty
from dphrl.objective.user_functions import Advantage, advantage_of
from dphrl.policy.batch import Row
from dphrl.policy.collectives import all_reduce_max, rank, world_size
from dphrl.policy.engine import Engine
from dphrl.store.catalogue import SCHEMAS
from dphrl.training.canary import WeightSync
from dphrl.training.loss import Example
from dphrl.training.metrics import Sampled, Track, speed, step_metrics
from dphrl.training.probes import Probes
from dphrl.training.rollouts import Group, OnlinePrompt, Score, rollout_request, scored_group
from dphrl.training.schedule import ends, epoch_indices, learning_rate
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer, Update

# Rollouts that trackers show of each step.
_SHOWN_GROUPS, _SHOWN_CHARACTERS = 3, 4000


@dataclass
class Segment:
    """Some steps of one training; with several ranks, the share of this rank.

    Attributes:
        prompts: the online prompts, in key order.
        rehearsal: the stored responses; None for a method that does not rehearse.
        score: responses and ground truths to verdicts.
        track: receives the metrics, speed and some rollouts of each step while training runs.
        start: for an engine that sleeps, `start` of `WeightSync`.
        probes: measurements at some steps; None: no measurements.
        earlier: rows of the metrics of the steps before, which can end the training (`train.stop`).
        seconds, tokens: by part: generate, score, train, push, probe.
        at_work: receives the work within a step; `run` sends it to the progress line.
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
    earlier: Sequence[tuple[int, str, float]] = ()
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    at_work: Callable[[str], None] = field(default_factory=lambda: lambda text: None, init=False)

    def run(self, first: int, last: int, label: str) -> pl.DataFrame:
        """Train steps `first` to `last`, both included, or up to the end by `train.stop`.

        Returns:
            The metrics table (step, metric, value).
        """
        texts, tolerance = [prompt.tokens for prompt in self.prompts], self.trainer.hardware.canary_tolerance
        sync = WeightSync(self.trainer, self.engine, tolerance, texts, self.start)
        sync.control()  # first prove that the check notices wrong weights
        if first == 1:
            self._probe(0, sync)
        rows: list[tuple[int, str, float]] = []
        progress = ProgressLines(last - first + 1, None if rank() else label, "steps")
        self.at_work = progress.at_work
        for step in range(first, last + 1):
            before = dict(self.seconds), dict(self.tokens)
            with self._timed("push"):
                canary_gap = sync.push(step)

            groups, left_out = self.roll_out(step)
            self.engine.sleep()  # frees its memory for the training; the next push wakes it

            with self._timed("train"):
                rollouts, rehearsal = self.examples(groups, step), self._rehearsal(step)
                shares = self._gradient_share(step, rollouts, rehearsal)
                updates, log_ratios = self._update(step, rollouts, rehearsal)  # also fills in each missing `old`

            metrics = step_metrics(groups, left_out, rollouts, updates, log_ratios)
            self.tokens["generate"] += int(metrics["drawn_tokens"])
            metrics["canary_gap"] = all_reduce_max(canary_gap)
            metrics |= shares | self._probe(step, sync)
            rows += [(step, name, float(value)) for name, value in metrics.items()]
            shown = [
                Sampled(group.prompt.prompt_id, group.verdicts[0].reward, group.completions[0].text[:_SHOWN_CHARACTERS])
                for group in groups[:_SHOWN_GROUPS]
            ]
            self.track(step, {**metrics, **speed(self.seconds, self.tokens, before)}, shown)
            rate = self.tokens["generate"] / max(self.seconds["generate"], 1e-9)
            progress.update(text=f"reward {metrics['reward']:.2f}, {rate:.0f} generated tok/s")
            if ends([*self.earlier, *rows], self.config.stop.coverage_below):
                progress.at_work(f"ended by train.stop after step {step}")
                break
        progress.close()
        return SCHEMAS["metrics"].frame(rows)

    def roll_out(self, step: int) -> tuple[list[Group], list[Group]]:
        """The groups that a step trains on, and the groups that dynamic sampling drops.

        Dynamic sampling (DAPO): a group whose rewards are all equal is replaced by the next informative
        group of up to `dynamic_sampling_rounds` further rounds. If these bring too few, the first groups stay in their
        places, but are not trained on.
        """
        kept, left_out = self._draw(step), list[Group]()
        for refill in range(1, self.method.dynamic_sampling_rounds + 1):
            places = [i for i, group in enumerate(kept) if not group.is_informative]
            if not places:
                break
            for group in self._draw(step, refill, len(places)):
                if group.is_informative:
                    place = places.pop(0)
                    left_out.append(kept[place])
                    kept[place] = group
                else:
                    left_out.append(group)
        return kept, left_out

    def _draw(self, step: int, refill: int = 0, wanted: int | None = None) -> list[Group]:
        """Scored responses to the first `wanted` (None: all) of this rank's prompts of a step, or of one refill."""
        config, size = self.config, self.config.rollouts_per_prompt
        label = f"refill {refill}" if refill else "prompts"
        indices = epoch_indices(self.seed, label, step, config.prompts_per_step, len(self.prompts))
        share = [(at, self.prompts[i]) for at, i in enumerate(indices)][rank() :: world_size()][:wanted]
        self.at_work(f"drawing {len(share) * size} responses")
        with self._timed("generate"):
            # The position is in the seed: in a small set a prompt can come twice in a step.
            completions = self.engine.generate(
                [
                    rollout_request(config, self.seed, ("train", step, refill, position), prompt, sample)
                    for position, prompt in share
                    for sample in range(size)
                ]
            )
        with self._timed("score"):
            asked = [prompt for _, prompt in share for _ in range(size)]
            truths, opened = [prompt.ground_truth for prompt in asked], [prompt.thought_open for prompt in asked]
            verdicts = [*self.score([completion.text for completion in completions], truths, opened)]
        starts = range(0, len(completions), size)
        return [
            Group(prompt, completions[start : start + size], verdicts[start : start + size])
            for start, (_, prompt) in zip(starts, share, strict=True)
        ]

    def examples(self, groups: Sequence[Group], step: int) -> list[Example]:
        """The rollouts with their advantages, and the log-probs that their loss needs."""
        rows = [Row(group.prompt.tokens, c.token_ids) for group in groups for c in group.completions]
        sampler = [torch.tensor(c.logprobs) for group in groups for c in group.completions]
        nothing = [None] * len(rows)
        reference = self.trainer.reference_logprobs(rows) if self.method.needs_reference_model else nothing
        # pi_old is the trainer's own forward pass under the sampling weights. The first mini-batch gets it from its
        # update, unless its log-probs are part of the advantages, or some of its rows may have no update.
        method = self.method
        separate = method.in_advantage or method.dynamic_sampling_rounds or "logprobs" in method.advantage_needs
        size = len(rows) // self.config.mini_batches
        from_update = 0 if separate else size
        # In bfloat16 rounding depends on the rows of a pass, so `old` is computed in the passes of its update: its
        # noise would be in the ratio. In float32 it is below 1e-6, and fewer passes are faster.
        at_once = size if self.config.dtype == "bfloat16" else len(rows)
        old: list[Tensor | None] = [*nothing[:from_update]]
        for start in range(from_update, len(rows), at_once):
            old += self.trainer.logprobs(rows[start : start + at_once])

        # Dynamic sampling trains on informative groups alone: a place that it could not fill counts nowhere.
        keeps_all = not self.method.dynamic_sampling_rounds
        counted = [keeps_all or group.is_informative for group in groups for _ in group.completions]
        columns = rows, self._advantages(groups, step, old, reference), old, sampler, reference, counted
        return [
            Example(row, advantage=a, old=ours, sampler=drawn, reference=theirs, counted=counts)
            for row, a, ours, drawn, theirs, counts in zip(*columns, strict=True)
        ]

    def _advantages(
        self, groups: Sequence[Group], step: int, old: Sequence[Tensor | None], reference: Sequence[Tensor | None]
    ) -> Sequence[float | Tensor]:
        """The advantage of each response, with reverse KL in the advantage of each of its tokens.

        Args:
            old, reference: of each response the log-probs of its tokens; None where the method does not need them.
        """
        rewards = torch.tensor([[v.reward for v in group.verdicts] for group in groups], dtype=torch.float64)
        if self.method.overlong_buffer:
            lengths = torch.tensor([[len(c.token_ids) for c in group.completions] for group in groups])
            rewards += overlong_penalty(lengths, self.config.max_tokens, self.method.overlong_buffer)
        size = rewards.shape[1]
        if self._own_advantage is None:
            advantages = group_advantages(rewards, std=self.method.advantage_std).flatten().tolist()
        else:
            advantages = []
            for number, (group, shaped) in enumerate(zip(groups, rewards, strict=True)):
                part = slice(number * size, (number + 1) * size)
                needs = self.method.advantage_needs
                scored = scored_group(group, shaped, old[part], reference[part], step=step, needs=needs)
                advantages += self._own_advantage(scored).tolist()
        if self.method.in_advantage:
            # Not in the reward, where the division by the group's std would make eta as strong as the rewards are
            # alike.
            log_ratios = [ours - theirs for ours, theirs in zip(old, reference, strict=True)]  # type: ignore[operator]
            penalties = k1_penalties(log_ratios, size, to_go=self.method.estimator == "to_go")
            advantages = [reward - self.method.eta * k1 for reward, k1 in zip(advantages, penalties, strict=True)]
        return advantages

    @cached_property
    def _own_advantage(self) -> Advantage | None:
        """The user's function in place of GRPO's advantages."""
        return advantage_of(self.method, self.config.rollouts_per_prompt) if self.method.advantage else None

    def _rehearsal(self, step: int) -> list[list[Example]]:
        """This rank's share of the rehearsed responses of each mini-batch."""
        parts, responses = self.config.mini_batches, self.rehearsal
        if responses is None:
            return [[] for _ in range(parts)]
        drawn = responses.of_step(self.seed, step, self.config.rehearsal_per_step)
        mini_batches = []
        for part in range(parts):
            numbers = drawn[part::parts][rank() :: world_size()]
            topk = zip(*responses.topk(numbers), strict=True) if self.method.topk_estimator else [None] * len(numbers)
            rows = zip(*responses.rows(numbers), topk, strict=True)
            mini_batches.append([Example(row, True, reference=logprobs, topk=top) for row, logprobs, top in rows])
        return mini_batches

    def _update(
        self, step: int, rollouts: list[Example], rehearsal: Sequence[Sequence[Example]]
    ) -> tuple[list[Update], list[Tensor]]:
        """The updates of a step, each on a mini-batch of rollouts and rehearsal; fills in `old` where it is None.

        Returns:
            The updates, and of each stored response l = log pi_theta - log pi_ref of its tokens before its update.
        """
        size = len(rollouts) // self.config.mini_batches
        lr = learning_rate(step, self.config.lr, self.config.warmup_steps)
        updates, log_ratios = [], list[Tensor]()
        for _ in range(self.config.ppo_epochs):
            for part, stored in enumerate(rehearsal):
                mini_batch = slice(part * size, (part + 1) * size)
                drawn = rollouts[mini_batch]
                update = self.trainer.update([*drawn, *stored], lr, self.at_work)
                if drawn[0].old is None:
                    old = update.logprobs[:size]
                    rollouts[mini_batch] = [replace(e, old=ours) for e, ours in zip(drawn, old, strict=True)]
                updates.append(update)
                self.tokens["train"] += int(
                    sum(update.totals.get(f"{kind}_tokens", 0) for kind in ("rollout", "rehearsal"))
                )
                pairs = zip(stored, update.logprobs[size:], strict=True)
                log_ratios += [ours - example.reference for example, ours in pairs]  # type: ignore[operator]
        return updates, log_ratios

    def _gradient_share(
        self, step: int, rollouts: Sequence[Example], rehearsal: Sequence[Sequence[Example]]
    ) -> dict[str, float]:
        """The divergence's share of the gradient on the first mini-batch of a step whose probes measure it."""
        if self.probes is None or not (self.config.probe.gradient and self.probes.due(step)):
            return {}
        size = len(rollouts) // self.config.mini_batches
        share = self.trainer.divergence_share([*rollouts[:size], *rehearsal[0]])
        return {} if share is None else {"divergence_gradient_share": share}

    def _probe(self, step: int, sync: WeightSync) -> dict[str, float]:
        """Metrics of the probes after this step; empty where they are not due."""
        if self.probes is None or not self.probes.due(step):
            return {}
        with self._timed("push"):
            sync.push(step)
        with self._timed("probe"):
            return self.probes.measure(step)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - start
