"""A divergence from the reference's most probable tokens: exact over them, sampled only in the tail."""

import torch
from torch import Tensor

from dphrl.objective.divergences import Divergence


def topk_value(
    divergence: Divergence,
    log_ratio_topk: Tensor,
    ref_logprobs_topk: Tensor,
    log_ratio_sampled: Tensor,
    sampled_in_topk: Tensor,
    *,
    rao_blackwell: bool = False,
) -> Tensor:
    """sum_k pi_ref(a_k) f(u_k), plus f(u) of the sampled token where it is not among the K, per token.

    On samples of the reference its expectation is that of f(u_sampled), and so is its gradient's. On stored responses,
    which are right answers, the K tokens keep the reference's weights and the tail has the responses' weights. Only the
    tail contributes variance: with K = 0 this is the single-sample estimator, with the whole vocabulary there is none.
    The tail is never lumped into one event: f of lumped probabilities is too small (Jensen).

    The sum's variance can exceed the single sample's where the K hold little of pi_ref: it adds a constant to the tail
    tokens alone. `rao_blackwell` is the conditional mean instead: the mean of f over the K where the sampled token is
    one of them, else f(u_sampled). It is as exact, and its variance is never above the single sample's. Of the two the
    sum varies less where the mean f of the K is above twice that of the tail (f >= 0).

    Args:
        divergence: one on samples of the reference.
        log_ratio_topk: log pi_theta - log pi_ref of the K tokens, (tokens, K), with gradient.
        ref_logprobs_topk: log pi_ref of the same tokens, (tokens, K), without gradient.
        log_ratio_sampled: of the sampled token, (tokens,), with gradient.
        sampled_in_topk: whether the sampled token is one of the K, bool (tokens,).
        rao_blackwell: the conditional mean instead of the sum.

    Returns:
        (tokens,), of the type that `divergence.value` gives.

    Raises:
        ValueError: a log-ratio is not finite.
    """
    reference = ref_logprobs_topk.exp()
    within = (reference * divergence.value(log_ratio_topk)).sum(dim=1)
    sampled = divergence.value(log_ratio_sampled)
    if not rao_blackwell:
        return within + sampled.masked_fill(sampled_in_topk, 0.0)
    # K = 0 holds no mass and no sampled token: 0 / tiny, which `where` leaves out.
    mass = reference.sum(dim=1).clamp(min=torch.finfo(reference.dtype).tiny)
    return torch.where(sampled_in_topk, within / mass, sampled)
