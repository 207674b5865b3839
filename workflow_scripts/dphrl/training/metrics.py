"""The metrics of a step, from sums over its rollouts and updates; its speed; and trackers that show both.

Trackers run with the training: a file of lines, TensorBoard, Trackio or W&B. No artifact depends on them.
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dphrl.objective.importance import mismatch
from dphrl.policy.collectives import all_gather, all_reduce_max, all_reduce_sum, world_size
from dphrl.training.loss import Example
from dphrl.training.rollouts import Group
from dphrl.training.trainer import Update

# Metrics that are means: the total, and the count that it is divided by.
_MEANS = {
    "reward": ("reward_sum", "responses"),
    "correct": ("correct_sum", "responses"),
    "constants": ("constant_sum", "executed_right"),
    "solved_share": ("solved_sum", "groups"),
    "mixed_share": ("mixed_sum", "groups"),
    "coverage_gap": ("coverage_gap_sum", "compared_groups"),
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


def step_metrics(
    groups: Sequence[Group],
    left_out: Sequence[Group],
    rollouts: Sequence[Example],
    updates: Sequence[Update],
    log_ratios: Sequence[Tensor],
) -> dict[str, float]:
    """The metrics of a step over all ranks.

    Args:
        groups, left_out: the groups that are trained on, and the groups that dynamic sampling dropped. Metrics of the
            rollouts include both.
        rollouts: of `groups`.
        log_ratios: of the tokens of each stored response.
    """
    totals: dict[str, float] = defaultdict(float)
    for update in updates:
        for name, value in update.totals.items():
            totals[name] += value
    totals |= all_reduce_sum({**rollout_sums([*groups, *left_out]), "refilled": len(left_out)})
    sampler = torch.cat([e.sampler for e in rollouts if e.sampler is not None])
    gap = mismatch(torch.cat([e.old for e in rollouts if e.old is not None]), sampler)
    ranks = world_size()
    norms = [update.grad_norm for update in updates if math.isfinite(update.grad_norm)]
    return {
        **averages(totals),
        **all_reduce_sum({"sampler_gap_mean": gap.mean / ranks, "sampler_ess": gap.ess / ranks}),
        "sampler_gap_max": all_reduce_max(gap.max),
        "grad_norm": sum(norms) / max(len(norms), 1),
        "skipped_updates": len(updates) - len(norms),
        **spread(log_ratios),
    }


def speed(
    seconds: Mapping[str, float], tokens: Mapping[str, int], before: tuple[Mapping[str, float], Mapping[str, int]]
) -> dict[str, float]:
    """Seconds of each part of a step, tokens/s of all ranks, and this rank's peak of GPU memory in GiB.

    Args:
        seconds, tokens: of each part until now.
        before: the same two at the start of the step.
    """
    spent = {part: now for part in seconds if (now := seconds[part] - before[0].get(part, 0.0))}
    counts = {part: tokens[part] - before[1].get(part, 0) for part in tokens}
    rates = {f"tokens_per_s/{part}": count / max(spent[part], 1e-9) for part, count in counts.items()}
    memory = {"gpu_gib": torch.cuda.max_memory_reserved() / 2**30} if torch.cuda.is_available() else {}
    return {**{f"seconds/{part}": value for part, value in spent.items()}, **rates, **memory}


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
    gaps = [_coverage_gap(group) for group in groups if group.prompt.base_n]
    return {
        "groups": len(groups),
        "responses": len(completions),
        "reward_sum": sum(map(sum, rewards)),
        "correct_sum": len(right),
        "executed_right": sum(verdict.reads_table is not None for verdict in right),
        "constant_sum": sum(verdict.reads_table is False for verdict in right),
        "solved_sum": sum(map(any, verdicts)),
        "mixed_sum": sum(any(group) and not all(group) for group in verdicts),
        "coverage_gap_sum": sum(gaps),
        "coverage_gap_squares": sum(gap * gap for gap in gaps),
        "compared_groups": len(gaps),
        "length_sum": sum(len(completion.token_ids) for completion in completions),
        "truncated_sum": sum(completion.finish_reason == "length" for completion in completions),
    }


def averages(totals: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step from totals over all ranks: the sums of `rollout_sums` and of the updates, and `refilled`."""
    present = {name: pair for name, pair in _MEANS.items() if totals.keys() >= {*pair} and totals[pair[1]]}
    means = {name: totals[total] / totals[count] for name, (total, count) in present.items()}
    used = {name: totals[count] for name, count in _USED.items() if count in totals}
    errors = {}
    if (number := totals["compared_groups"]) > 1:
        variance = (totals["coverage_gap_squares"] - totals["coverage_gap_sum"] ** 2 / number) / (number - 1)
        errors["coverage_gap_error"] = math.sqrt(max(variance, 0.0) / number)
    return {**means, **errors, **used, "refilled": totals["refilled"]}


def _coverage_gap(group: Group) -> float:
    """pass@k of the rollouts less that of the base's pre-samples of the same prompt, for the largest k up to 8."""
    n, right, prompt = len(group.verdicts), sum(verdict.correct for verdict in group.verdicts), group.prompt
    k = min(8, n, prompt.base_n)
    # Not by `evaluation.estimator`, whose edits would then retrain every policy.
    missed = [math.comb(m - c, k) / math.comb(m, k) for m, c in ((prompt.base_n, prompt.base_right), (n, right))]
    return missed[0] - missed[1]


class Sampled(NamedTuple):
    """A rollout as trackers show it: the beginning of its text, and its reward."""

    prompt_id: str
    reward: float
    text: str


Track = Callable[[int, Mapping[str, float], Sequence[Sampled]], None]


def open_trackers(names: Sequence[str], folder: Path, run: str, lines: Path | None, stack: ExitStack) -> Track:
    """A function that sends the metrics of a step and some rollouts to each tracker; `stack` closes them.

    Args:
        names: tensorboard, trackio or wandb; each needs the package of that name. Trackio and W&B get no rollouts.
        folder: for their files.
        run: name of this training in them.
        lines: gets a line of JSON for each step; None: there is no such file.
    """
    tracks = [_OPENERS[name](folder, run, stack) for name in names]
    # Each line is written at once, so a reader sees whole steps.
    file = None if lines is None else stack.enter_context(lines.open("w", encoding="utf-8", buffering=1))

    def track(step: int, metrics: Mapping[str, float], rollouts: Sequence[Sampled]) -> None:
        for show in tracks:
            show(step, metrics, rollouts)
        if file is not None:
            shown = [rollout._asdict() for rollout in rollouts]
            file.write(json.dumps({"step": step, **metrics, "rollouts": shown}) + "\n")

    return track


def _tensorboard(folder: Path, run: str, stack: ExitStack) -> Track:
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(str(folder / run)))

    def show(step: int, metrics: Mapping[str, float], rollouts: Sequence[Sampled]) -> None:
        for key, value in metrics.items():
            writer.add_scalar(key, value, step)
        for number, rollout in enumerate(rollouts):
            # As a code block of Markdown: its page shows the text of a model as it is.
            lines = rollout.text.encode(errors="replace").decode().splitlines()
            text = "\n".join(f"    {line}" for line in lines)
            writer.add_text(f"rollout/{number}", f"{rollout.prompt_id}, reward {rollout.reward:g}\n\n{text}", step)
        # A killed segment must leave its steps.
        writer.flush()

    return show


def _wandb(folder: Path, run: str, stack: ExitStack) -> Track:
    wandb = import_module("wandb")
    folder.mkdir(parents=True, exist_ok=True)
    # A segment continues the run of the segment before it.
    tracked = wandb.init(project="dphrl", name=run, id=run, dir=folder, resume="allow")
    stack.callback(tracked.finish)
    return lambda step, metrics, rollouts: tracked.log(dict(metrics), step=step)


def _trackio(folder: Path, run: str, stack: ExitStack) -> Track:
    # Read when the package is imported; a value that the user set, for several projects, is kept.
    os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
    trackio = import_module("trackio")
    options = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
    tracked = trackio.init(project="dphrl", name=run, resume="allow", **options)
    stack.callback(tracked.finish)
    return lambda step, metrics, rollouts: tracked.log(dict(metrics), step=step)


_OPENERS = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}
