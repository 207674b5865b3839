"""The loss of a method on rows of each kind: rollouts of D_exp, and stored responses of D_pef."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from dphrl.config.blocks.methods import MethodConfig
from dphrl.config.blocks.train import TrainConfig
from dphrl.model.batch import Row
from dphrl.objective.aggregation import ComponentWeights, component_weights, js_beta
from dphrl.objective.divergences import Divergence
from dphrl.objective.forms import divergence
from dphrl.objective.importance import tis_weights
from dphrl.objective.ppo import policy_loss
from dphrl.objective.topk import topk_value


@dataclass(frozen=True)
class Example:
    """One row to train on. Its kind decides its loss, whatever rows it is computed with.

    Attributes:
        row: prompt and response.
        stored: whether it is a stored response of D_pef; else it is a rollout.
        advantage: of a rollout.
        old: log pi_old of a rollout's tokens; None where the policy is still the one that sampled.
        sampler: the engine's log-probs of a rollout's tokens.
        reference: log pi_ref of the tokens: of a stored response, and of rollouts where the method asks for it.
        topk: of a stored response, the reference's likeliest tokens (tokens, K) and their log-probs.
    """

    row: Row
    stored: bool = False
    advantage: float = 0.0
    old: Tensor | None = None
    sampler: Tensor | None = None
    reference: Tensor | None = None
    topk: tuple[Tensor, Tensor] | None = None


Sums = dict[str, float]
_T = TypeVar("_T")


class Objective:
    """The loss of one method (arXiv 2509.07430, Eq. 5 to 7, 15 and 17).

    Attributes:
        of_stored: divergence on the stored responses; None for a method that does not rehearse.
        of_rollouts: divergence on the rollouts; None where the method has none there.
    """

    def __init__(self, method: MethodConfig, config: TrainConfig) -> None:
        self._method, self._config = method, config
        self.of_stored, self.of_rollouts = _divergences(method)

    def weights(self, rows: tuple[int, int], tokens: tuple[int, int]) -> ComponentWeights:
        """Weights of token losses from the counts of a whole mini-batch: (rollouts, stored responses) on all ranks."""
        beta = 0.0
        if self.of_rollouts is not None:
            auto = 1.0 if self._method.divergence == "reverse_kl" else js_beta(rows)
            beta = auto if self._method.js_beta == "auto" else self._method.js_beta
        return component_weights(rows, tokens, self._method.eta, self._config.rehearsal_norm, beta)

    def rollout_loss(
        self, logprobs: Tensor, entropy: Tensor, examples: Sequence[Example], weights: ComponentWeights
    ) -> tuple[Tensor, Sums]:
        """The weighted sum of the clipped policy loss, and of the divergence where there is one on rollouts.

        Args:
            logprobs, entropy: of the examples' response tokens, flat in their order.

        Raises:
            ValueError: an example lacks what the method or configuration needs.
        """
        ours = logprobs.detach().split([len(e.row.response) for e in examples])
        old = torch.cat([p if e.old is None else e.old.to(p) for e, p in zip(examples, ours, strict=True)])
        advantages = torch.cat([torch.full_like(p, e.advantage) for e, p in zip(examples, ours, strict=True)])
        result = policy_loss(
            logprobs,
            old,
            advantages,
            eps_low=self._config.eps_low,
            eps_high=self._method.eps_high,
            dual_clip=self._config.dual_clip,
            weights=self._importance(old, examples),
        )
        loss = weights.exploration * result.loss.sum()
        log_ratio = (logprobs - old).detach()
        sums = {
            "policy_loss_sum": result.loss.sum().item(),
            "clipped_sum": result.clipped.sum().item(),
            "kl_to_old_sum": (torch.expm1(-log_ratio) + log_ratio).sum().item(),
            "entropy_sum": entropy.sum().item(),
            "rollout_tokens": len(logprobs),
        }
        if self._method.needs_reference_model:
            log_ratio = logprobs - _joined((e.reference for e in examples), "reference").to(logprobs)
            # k1 where the divergence is in the reward: only told here.
            value = log_ratio.detach() if self.of_rollouts is None else self.of_rollouts.value(log_ratio)
            loss = loss + weights.rollout_divergence * value.sum()
            sums["rollout_divergence_sum"] = value.sum().item()
        return loss, sums

    def stored_loss(
        self, logprobs: Tensor, topk: Tensor | None, examples: Sequence[Example], weights: ComponentWeights
    ) -> tuple[Tensor, Sums]:
        """The weighted sum of the divergence on stored responses.

        Args:
            logprobs: of the examples' response tokens, flat in their order.
            topk: of the reference's likeliest tokens at each place (tokens, K); None without them.

        Raises:
            ValueError: the method does not rehearse, or an example lacks what it needs.
        """
        if self.of_stored is None:
            raise ValueError(f"stored responses reached a method without rehearsal ({self._method.divergence})")
        log_ratio = logprobs - _joined((e.reference for e in examples), "reference").to(logprobs)
        value = self.of_stored.value(log_ratio) if topk is None else self._topk_value(log_ratio, topk, examples)
        sums = {"divergence_sum": value.sum().item(), "stored_tokens": len(logprobs)}
        return weights.rehearsal * value.sum(), sums

    def _topk_value(self, log_ratio: Tensor, topk: Tensor, examples: Sequence[Example]) -> Tensor:
        assert self.of_stored is not None
        ids, reference = topk_of(examples)
        sampled = torch.tensor([token for e in examples for token in e.row.response])
        return topk_value(
            self.of_stored,
            topk - reference.to(topk),
            reference.to(topk),
            log_ratio,
            (ids == sampled[:, None]).any(dim=1).to(topk.device),
            rao_blackwell=self._method.topk == "conditional",
        )

    def _importance(self, old: Tensor, examples: Sequence[Example]) -> Tensor | None:
        if self._config.tis_cap is None:
            return None
        return tis_weights(old, _joined((e.sampler for e in examples), "sampler").to(old), self._config.tis_cap)


def topk_of(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Ids and reference log-probs of the stored top-K tokens of all examples, (response tokens, K) each."""
    ids, logprobs = zip(*_present((e.topk for e in examples), "topk"), strict=True)
    return torch.cat(ids), torch.cat(logprobs)


def _joined(parts: Iterable[Tensor | None], name: str) -> Tensor:
    return torch.cat(_present(parts, name))


def _present(parts: Iterable[_T | None], name: str) -> list[_T]:
    found = []
    for part in parts:
        if part is None:
            raise ValueError(f"an example lacks `{name}`, which this method or configuration needs")
        found.append(part)
    return found


def _divergences(method: MethodConfig) -> tuple[Divergence | None, Divergence | None]:
    """The divergences of a method on stored responses and on rollouts."""
    cap = method.l_cap
    match method.divergence:
        case "forward_kl":
            return divergence("forward_kl", estimator=method.estimator, l_cap=cap), None
        case "js":
            return divergence("js", js_scale=method.js_scale, l_cap=cap), None
        case "alpha":
            return divergence("alpha", alpha=method.alpha, l_cap=cap), None
        case "js_definition":
            on_rollouts = divergence("js_definition", samples="policy", estimator=method.estimator, l_cap=cap)
            return divergence("js_definition", l_cap=cap), on_rollouts
        case "reverse_kl" if method.estimator != "reward_k1":
            return None, divergence("reverse_kl", estimator=method.estimator, l_cap=cap)
    return None, None
