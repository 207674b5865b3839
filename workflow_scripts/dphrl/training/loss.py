"""The loss of each method, from its terms (arXiv 2509.07430). A row is a rollout or a rehearsed response.

| `divergence`                 | rollouts                               | rehearsal                            |
| null (GRPO, DAPO)            | policy loss (Eq. 5)                    | -                                    |
| forward_kl, js, alpha        | policy loss                            | eta f(u) (Eq. 6 and 7, Table 5)      |
| FILE.py:NAME                 | policy loss                            | eta f(u) of the user's function      |
| js_definition                | policy loss + eta beta f(u) (Eq. 15)   | eta f(u), its second half (Eq. 17)   |
| reverse_kl, k3 and k2        | policy loss + eta f(u)                 | -                                    |
| reverse_kl, reward_k1, to_go | policy loss, A - eta (k1 - baseline)   | -                                    |

| term                                          | computed in                                                 |
| policy loss                                   | `objective.ppo.policy_loss`                                 |
| its advantages; k1 and its baseline           | `training.segment`, `objective.advantages`                  |
| f(u), u = pi_theta / pi_ref                   | `objective.divergences`; `user_functions`                 |
| f(u) over the reference's top-K tokens        | `objective.divergences.topk_value`                          |
| eta, beta (Eq. 16) and the means over tokens  | `Objective.loss_weights`, `objective.aggregation`           |
| importance weights of the policy loss         | `objective.importance.tis_weights`                          |
| weights of f(u) on rollouts, `off_policy`     | `objective.importance.off_policy`                           |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor

from dphrl.config.blocks.training import OWN, MethodConfig, TrainConfig
from dphrl.objective.aggregation import ComponentWeights, component_weights, js_beta
from dphrl.objective.divergences import Divergence, divergence, topk_value
from dphrl.objective.importance import off_policy, tis_weights
from dphrl.objective.ppo import policy_loss
from dphrl.objective.user_functions import divergence_of
from dphrl.policy.batch import Row


@dataclass(frozen=True)
class Example:
    """One row to train on. Its loss depends on its kind alone, not on the other rows of the batch.

    Attributes:
        row: prompt and response.
        rehearsal: whether it is a stored response that is rehearsed; else it is a rollout.
        advantage: of a rollout: one for all of its tokens, or each token's (tokens,).
        old: log pi_old of a rollout's tokens; None where the policy is unchanged since sampling.
        sampler: the engine's log-probs of a rollout's tokens.
        reference: log pi_ref of the tokens: for rehearsal, and for rollouts where the method asks for it.
        topk: for rehearsal, the reference's likeliest tokens (tokens, K) and their log-probs.
        counted: whether it is trained on, and is in the number of rows and tokens that losses are divided by.
    """

    row: Row
    rehearsal: bool = False
    advantage: float | Tensor = 0.0
    old: Tensor | None = None
    sampler: Tensor | None = None
    reference: Tensor | None = None
    topk: tuple[Tensor, Tensor] | None = None
    counted: bool = True


Sums = dict[str, Tensor | int]
"""Sums over the tokens of a pass, float64 on its device, so that the host need not wait for them; and their number."""


class Objective:
    """The loss of one method.

    Attributes:
        rehearsal_divergence: divergence on rehearsed responses; None for a method that does not rehearse.
        rollout_divergence: divergence on the rollouts; None for a method without one.
    """

    def __init__(self, method: MethodConfig, config: TrainConfig) -> None:
        self._method, self._config, cap = method, config, method.l_cap
        self.rehearsal_divergence: Divergence | None = None
        self.rollout_divergence: Divergence | None = None
        match method.divergence:
            case "forward_kl":
                self.rehearsal_divergence = divergence("forward_kl", estimator=method.estimator, l_cap=cap)
            case "js":
                self.rehearsal_divergence = divergence("js", js_scale=method.js_scale, l_cap=cap)
            case "alpha":
                self.rehearsal_divergence = divergence("alpha", alpha=method.alpha, l_cap=cap)
            case "js_definition":
                self.rehearsal_divergence = divergence("js_definition", l_cap=cap)
                self.rollout_divergence = divergence(
                    "js_definition", samples="policy", estimator=method.estimator, l_cap=cap
                )
            case "reverse_kl" if not method.in_advantage:
                self.rollout_divergence = divergence("reverse_kl", estimator=method.estimator, l_cap=cap)
            case str(place) if method.form == OWN:
                self.rehearsal_divergence = divergence_of(place, cap)

    def loss_weights(self, rows: tuple[int, int], tokens: tuple[int, int]) -> ComponentWeights:
        """Weights of token losses from the counts of a whole mini-batch: (rollouts, rehearsal) on all ranks."""
        beta, norm = 0.0, self._config.rehearsal_norm
        if self.rollout_divergence is not None and rows[0]:
            auto = 1.0 if self._method.divergence == "reverse_kl" else js_beta(rows, tokens, norm)
            beta = auto if self._method.js_beta == "auto" else self._method.js_beta
        return component_weights(rows, tokens, self._method.eta, norm, beta)

    def rollout_loss(
        self, logprobs: Tensor, entropy: Tensor, examples: Sequence[Example], weights: ComponentWeights
    ) -> tuple[Tensor, Sums]:
        """The weighted sum of the clipped policy loss, and of the divergence on rollouts, if any.

        Args:
            logprobs, entropy: of the examples' response tokens, flat in their order.
        """
        ours = logprobs.detach().split([len(e.row.response) for e in examples])
        old = torch.cat([p if e.old is None else e.old.to(p) for e, p in zip(examples, ours, strict=True)])
        advantages = torch.cat(
            [torch.as_tensor(e.advantage).to(p).expand_as(p) for e, p in zip(examples, ours, strict=True)]
        )
        importance = None
        if (cap := self._config.tis_cap) is not None:
            importance = tis_weights(old, _joined(examples, "sampler").to(old), cap)
        result = policy_loss(
            logprobs,
            old,
            advantages,
            eps_low=self._config.eps_low,
            eps_high=self._method.eps_high,
            dual_clip=self._config.dual_clip,
            weights=importance,
        )
        loss = weights.exploration * result.loss.sum()
        moved = (logprobs - old).detach().double()
        sums: Sums = {
            "policy_loss_sum": _sum(result.loss),
            "clipped_sum": _sum(result.clipped),
            # k3 of KL(old || new), on samples of pi_old.
            "kl_to_old_sum": _sum(torch.expm1(moved) - moved),
            "entropy_sum": _sum(entropy),
            "rollout_tokens": len(logprobs),
        }
        if self._method.needs_reference_model:
            log_ratio = logprobs - _joined(examples, "reference").to(logprobs)
            # Where the divergence is in the advantages, its k1 is only a metric here.
            value = log_ratio.detach() if self.rollout_divergence is None else self.rollout_divergence.value(log_ratio)
            if self._method.off_policy is not None:
                value, capped = off_policy(value, logprobs, old, self._method.off_policy, self._method.off_policy_cap)
                sums["off_policy_capped_sum"] = _sum(capped)
            loss = loss + weights.rollout_divergence * value.sum()
            sums["rollout_divergence_sum"] = _sum(value)
        return loss, sums

    def rehearsal_loss(
        self, logprobs: Tensor, topk: Tensor | None, examples: Sequence[Example], weights: ComponentWeights
    ) -> tuple[Tensor, Sums]:
        """The weighted sum of the divergence on rehearsed responses.

        Args:
            logprobs: of the examples' response tokens, flat in their order.
            topk: of the reference's likeliest tokens at each position (tokens, K); None without them.
        """
        form = self.rehearsal_divergence
        assert form is not None  # Stored responses exist for a method that rehearses.
        log_ratio = logprobs - _joined(examples, "reference").to(logprobs)
        if topk is None:
            value = form.value(log_ratio)
        else:
            ids, reference = topk_of(examples)
            sampled = torch.tensor([token for e in examples for token in e.row.response])
            value = topk_value(
                form,
                topk - reference.to(topk),
                reference.to(topk),
                log_ratio,
                (ids == sampled[:, None]).any(dim=1).to(topk.device),
                rao_blackwell=self._method.topk_estimator == "conditional",
            )
        sums: Sums = {"divergence_sum": _sum(value), "rehearsal_tokens": len(logprobs)}
        return weights.rehearsal * value.sum(), sums


def topk_of(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Ids and reference log-probs of the reference's top-K tokens of all examples, (response tokens, K) each."""
    ids, logprobs = zip(*map(attrgetter("topk"), examples), strict=True)
    return torch.cat(ids), torch.cat(logprobs)


def _sum(values: Tensor) -> Tensor:
    return values.detach().sum().double()


def _joined(examples: Sequence[Example], name: str) -> Tensor:
    return torch.cat([getattr(example, name) for example in examples])
