"""Divergences of policy and reference, per token (arXiv 2509.07430, Table 5 and Appendix E).

With l = log pi_theta(a|s) - log pi_ref(a|s) and u = exp(l), a loss is E_a[f(u)] and its gradient g(l) * grad log
pi_theta(a|s). On samples of the reference this is the divergence. Stored responses are right answers, sampled with
top-p: on them f with its minimum at u = 1 is an anchor at the reference, and k1 is a likelihood (docs/method.md).
Everything is computed from l, never from u: exp(l) overflows float32 beyond 88. The closed forms are written for
float64, in which they keep their digits near l = 0 too.
"""

# ruff: noqa: E741 (l is the paper's letter)

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor

Samples = Literal["reference", "policy"]

# Up to here u * 1e4 is far inside float32.
_LARGEST_CAP = 50.0


@dataclass(frozen=True)
class Divergence:
    """One divergence: `value` and `gradient` per token, finite for |log-ratio| <= 1e4.

    On samples of the reference f can grow like exp(l), on samples of the policy like exp(-l). On that side it continues
    linearly beyond `l_cap`, with the slope that it has there.

    Args:
        name: as in the config, with its options.
        f: l -> token value, a closed form in float64, used up to the cap.
        g: l -> d f / d log pi_theta on the same range.
        l_cap: where the linear continuation begins; None where f does not grow exponentially.
        samples: whose responses it is evaluated on.
    """

    name: str
    f: Callable[[Tensor], Tensor]
    g: Callable[[Tensor], Tensor]
    l_cap: float | None = None
    samples: Samples = "reference"

    def value(self, log_ratio: Tensor) -> Tensor:
        """f per token; autograd through it gives `gradient`.

        Args:
            log_ratio: any shape and floating type.

        Returns:
            The same shape; float64 for float64, else float32.

        Raises:
            ValueError: a log-ratio is not finite; names the first such element.
        """
        return _Value.apply(_finite(log_ratio), self)

    def gradient(self, log_ratio: Tensor) -> Tensor:
        """g = d f / d log pi_theta per token; shapes, types and errors as for `value`."""
        return self._gradient(_finite(log_ratio))

    def mirrored(self, name: str) -> Self:
        """The form for samples of the other policy, which have the inverse ratio: f(-l) and -g(-l)."""
        other: Samples = "policy" if self.samples == "reference" else "reference"
        return replace(self, name=name, f=lambda l: self.f(-l), g=lambda l: -self.g(-l), samples=other)

    def _value(self, log_ratio: Tensor) -> Tensor:
        exact = log_ratio.double()
        inside = self._up_to_cap(exact)
        value = self.f(inside)
        if self.l_cap is not None:
            value = value + self.g(inside) * (exact - inside)
        return value.to(log_ratio.dtype)

    def _gradient(self, log_ratio: Tensor) -> Tensor:
        return self.g(self._up_to_cap(log_ratio.double())).to(log_ratio.dtype)

    def _up_to_cap(self, log_ratio: Tensor) -> Tensor:
        if self.l_cap is None:
            return log_ratio
        return log_ratio.clamp(max=self.l_cap) if self.samples == "reference" else log_ratio.clamp(min=-self.l_cap)


class _Value(torch.autograd.Function):
    """Value by f, gradient by g: autograd through a clamped exp would give NaN or 0 at the ends."""

    @staticmethod
    def forward(ctx: Any, log_ratio: Tensor, divergence: Divergence) -> Tensor:
        ctx.save_for_backward(log_ratio)
        ctx.divergence = divergence
        return divergence._value(log_ratio)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (log_ratio,) = ctx.saved_tensors
        return upstream * ctx.divergence._gradient(log_ratio), None


def _finite(log_ratio: Tensor) -> Tensor:
    """The log-ratios in float32 or float64, checked to be finite."""
    if not torch.isfinite(log_ratio).all():
        first = (~torch.isfinite(log_ratio)).nonzero()[0].tolist()
        raise ValueError(
            f"log-ratio at {first} is {log_ratio[tuple(first)].item()}: a stored reference log-prob or the policy's"
            " is not finite; check the reference responses and the learning rate"
        )
    return log_ratio if log_ratio.dtype == torch.float64 else log_ratio.float()


def _forward_kl(estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """KL(pi_ref || pi_theta). k1: f = -ln u. k3: f = u - 1 - ln u, with its minimum at u = 1.

    Both have the same expectation on samples of the reference. On stored responses k1 raises their likelihood without
    end, and k3 stops at the reference.
    """
    if estimator == "k1":
        return Divergence("forward_kl/k1", torch.neg, lambda l: -torch.ones_like(l))
    if estimator == "k3":
        return Divergence("forward_kl/k3", lambda l: torch.expm1(l) - l, torch.expm1, l_cap)
    raise ValueError(f"forward_kl has the estimators k1 and k3, not {estimator!r}")


def _js(js_scale: float = 1.0, l_cap: float = 3.0) -> Divergence:
    """Jensen-Shannon, generator form: f = u ln u - (u+1) ln((u+1)/2), times `js_scale` (0.5 in textbooks)."""

    def g(l: Tensor) -> Tensor:
        return js_scale * l.exp() * _to_mixture(l)

    return Divergence("js", lambda l: g(l) + js_scale * _to_mixture(-l), g, l_cap)


def _alpha(alpha: float = 0.5, l_cap: float = 3.0) -> Divergence:
    """f = (u^(1-a) - (1-a) u - a) / (a (a-1)); a = 1 is forward_kl, a = 0 is u ln u - u + 1, both as limits."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be in [0, 1], got {alpha}")

    def g(l: Tensor) -> Tensor:
        return ((1 - alpha) * l).exp() * _power(alpha, l)

    # Each half of [0, 1] has the form that divides by the larger of a and 1 - a, so both limits keep all digits.
    def f(l: Tensor) -> Tensor:
        if alpha < 0.5:
            return (g(l) - torch.expm1(l)) / (1 - alpha)
        return (torch.expm1(l) - _power(1 - alpha, l)) / alpha

    return Divergence(f"alpha/{alpha:g}", f, g, l_cap)


def _reverse_kl(samples: Samples = "policy", estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """KL(pi_theta || pi_ref).

    On policy samples: k3, the published baseline, whose expected gradient is that of the *forward* KL; k2 = (ln u)^2/2,
    whose expected gradient is that of the reverse KL. Both per token, with the states held fixed: how earlier tokens
    change later states is left out (arXiv 2506.09477). On reference samples: k3 = u ln u - u + 1.
    """
    match samples, estimator:
        case "reference", "k3":
            return replace(_alpha(0.0, l_cap), name="reverse_kl/reference/k3")
        case "policy", "k3":
            return _forward_kl("k3", l_cap).mirrored("reverse_kl/policy/k3")
        case "policy", "k2":
            return Divergence("reverse_kl/policy/k2", lambda l: l.square() / 2, torch.clone, samples="policy")
        case "policy", "k1":
            raise ValueError("reverse_kl k1 as a loss has the expected gradient 0: use k2, or reward_k1 or to_go")
    raise ValueError(f"reverse_kl has reference/k3, policy/k3 and policy/k2, not {samples}/{estimator}")


def _js_definition(samples: Samples = "reference", estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """One half of Jensen-Shannon by its definition, with the mixture M = (pi_theta + pi_ref) / 2.

    On reference samples KL(pi_ref || M): k1 = -ln r and k3 = r - 1 - ln r with r = M / pi_ref, both with the exact
    expected gradient. On policy samples KL(pi_theta || M): k3 with r = M / pi_theta, exact to first order only, as
    the samples move with the policy; "exact" has the value ln(pi_theta / M) and as gradient the score-function weight
    ln(2u/(1+u)) + 1/(1+u) - 1/2, where the constant changes no expectation and makes equal policies weigh 0.
    """
    match samples, estimator:
        case "reference", "k1":
            return Divergence("js_definition/reference/k1", lambda l: _to_mixture(-l), lambda l: -torch.sigmoid(l))
        case "reference", "k3":
            return Divergence(
                "js_definition/reference/k3",
                lambda l: torch.expm1(l) / 2 + _to_mixture(-l),
                lambda l: torch.expm1(l) * torch.sigmoid(l) / 2,
                l_cap,
            )
        case "policy", "k3":
            return _js_definition("reference", "k3", l_cap).mirrored("js_definition/policy/k3")
        case "policy", "exact":
            return Divergence("js_definition/policy/exact", _to_mixture, _score_weight, samples="policy")
        case "policy", "k1":
            raise ValueError("js_definition k1 as a loss on policy samples points away from the reference: k3 or exact")
    raise ValueError(f"js_definition has reference/k1, k3 and policy/k3, exact, not {samples}/{estimator}")


def _to_mixture(l: Tensor) -> Tensor:
    """ln(pi_theta / M) = ln(2u / (1 + u)), with all its digits at both ends and near 0; at -l it is ln(pi_ref / M)."""
    return l.clamp(max=0) - torch.log1p(torch.expm1(-l.abs()) / 2)


def _score_weight(l: Tensor) -> Tensor:
    """ln(2u / (1 + u)) + 1 / (1 + u) - 1/2."""
    return _to_mixture(l) - torch.tanh(l / 2) / 2


def _power(c: float, l: Tensor) -> Tensor:
    """(u^c - 1) / c, which is ln u for c = 0."""
    return torch.expm1(c * l) / c if c else l


_FORMS: dict[str, Callable[..., Divergence]] = {
    "forward_kl": _forward_kl,
    "js": _js,
    "alpha": _alpha,
    "reverse_kl": _reverse_kl,
    "js_definition": _js_definition,
}


def divergence(name: str, **options: Any) -> Divergence:
    """The divergence called `name`.

    Args:
        name: with its options:
            "forward_kl": `estimator` = "k3" | "k1".
            "js": `js_scale` = 1.0 (0.5: the mean of the two KL, as in textbooks).
            "alpha": `alpha` = 0.5, in [0, 1].
            "reverse_kl": `samples` = "policy" with `estimator` = "k3" | "k2", or "reference" with "k3".
            "js_definition": `samples` = "reference" with `estimator` = "k3" | "k1", or "policy" with "k3" | "exact".
        options: these, and `l_cap` = 3.0, where the linear continuation begins.

    Raises:
        ValueError: the name is unknown, or an option has a value that it cannot have.
        TypeError: the divergence has no such option.
    """
    if name not in _FORMS:
        raise ValueError(f"unknown divergence {name!r}, known: {', '.join(_FORMS)}")
    if not 0 < options.get("l_cap", 1.0) <= _LARGEST_CAP:
        raise ValueError(f"l_cap must be in (0, {_LARGEST_CAP:g}], got {options['l_cap']}")
    return _FORMS[name](**options)


def topk_value(
    divergence: Divergence,
    log_ratio_topk: Tensor,
    ref_logprobs_topk: Tensor,
    log_ratio_sampled: Tensor,
    sampled_in_topk: Tensor,
    *,
    rao_blackwell: bool = False,
) -> Tensor:
    """A divergence that is exact over the reference's K most probable tokens, and sampled only in the tail.

    sum_k pi_ref(a_k) f(u_k), plus f(u) of the sampled token where it is not among the K, per token.

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
