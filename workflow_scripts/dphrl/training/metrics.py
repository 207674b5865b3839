"""What is told of each step: sums that ranks add up, and the averages made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dphrl.training.rollouts import Group

_OF_TOKENS = {
    "entropy": "entropy_sum",
    "policy_loss": "policy_loss_sum",
    "clip_share": "clipped_sum",
    "kl_to_old": "kl_to_old_sum",
    "rollout_divergence": "rollout_divergence_sum",
}


def of_rollouts(groups: Sequence[Group]) -> dict[str, float]:
    """Sums and numbers over all rollouts of a step, those that dynamic sampling left out included."""
    rewards = [[verdict.reward for verdict in group.verdicts] for group in groups]
    completions = [completion for group in groups for completion in group.completions]
    return {
        "groups": len(groups),
        "responses": len(completions),
        "reward_sum": sum(map(sum, rewards)),
        "correct_sum": sum(verdict.correct for group in groups for verdict in group.verdicts),
        "solved_sum": sum(max(group) > 0 for group in rewards),
        "mixed_sum": sum(max(group) != min(group) for group in rewards),
        "length_sum": sum(len(completion.token_ids) for completion in completions),
        "truncated_sum": sum(completion.finish_reason == "length" for completion in completions),
    }


def averages(totals: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step from its totals: those of `of_rollouts`, of its updates, and `refilled`."""
    responses, groups, tokens = totals["responses"], totals["groups"], totals["rollout_tokens"]
    metrics = {
        "reward": totals["reward_sum"] / responses,
        "correct": totals["correct_sum"] / responses,
        "solved_share": totals["solved_sum"] / groups,
        "mixed_share": totals["mixed_sum"] / groups,
        "response_length": totals["length_sum"] / responses,
        "truncated_share": totals["truncated_sum"] / responses,
        "refilled": totals["refilled"],
    }
    metrics |= {name: totals[of] / tokens for name, of in _OF_TOKENS.items() if of in totals}
    if totals.get("stored_tokens"):
        metrics["divergence"] = totals["divergence_sum"] / totals["stored_tokens"]
    return metrics
