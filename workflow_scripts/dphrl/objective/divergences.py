"""f-divergences of policy and reference, per token, on samples of the reference (arXiv 2509.07430, Table 5).

With l = log pi_theta(a|s) - log pi_ref(a|s) and u = exp(l), a divergence is E_{a ~ pi_ref}[f(u)]; the gradient of its
loss is g(l) * grad log pi_theta(a|s) with g = u f'(u). Everything is computed from l, never from u: exp(l) overflows
float32 beyond 88.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

_LN2 = math.log(2.0)
# Below this the closed JS form loses its digits to cancellation in float32; float64 keeps enough.
_JS_SERIES_BELOW = 0.05


@dataclass(frozen=True)
class Divergence:
    """One divergence: `value` and `gradient` per token, finite for |log-ratio| <= 1e4.

    Above `l_cap` f grows like exp(l), so it continues linearly with the slope that it has there.

    Args:
        name: as in the config, with its options.
        f: l -> f(exp(l)) on (-inf, l_cap].
        g: l -> d f / d log pi_theta on the same range.
        l_cap: where the linear continuation begins; None where f does not grow exponentially.
    """

    name: str
    f: Callable[[Tensor], Tensor]
    g: Callable[[Tensor], Tensor]
    l_cap: float | None

    def value(self, log_ratio: Tensor) -> Tensor:
        """f per token, same shape and dtype as `log_ratio`; autograd through it gives `gradient`.

        Raises:
            ValueError: a log-ratio is not finite; names the first such element.
        """
        if not torch.isfinite(log_ratio).all():
            first = (~torch.isfinite(log_ratio)).nonzero()[0].tolist()
            raise ValueError(
                f"log-ratio at {first} is {log_ratio[tuple(first)].item()}: a stored reference log-prob or the policy's"
                " is not finite; check the reference responses and the learning rate"
            )
        value: Tensor = _DivergenceFunction.apply(log_ratio, self)
        return value

    def gradient(self, log_ratio: Tensor) -> Tensor:
        """g = d f / d log pi_theta per token, same shape and dtype as `log_ratio`."""
        return self.g(log_ratio if self.l_cap is None else log_ratio.clamp(max=self.l_cap))

    def _continued(self, log_ratio: Tensor) -> Tensor:
        if self.l_cap is None:
            return self.f(log_ratio)
        inside = log_ratio.clamp(max=self.l_cap)
        return self.f(inside) + self.g(inside) * (log_ratio - inside)


class _DivergenceFunction(torch.autograd.Function):
    """Value by the stable form, gradient by g: autograd through `where` and `expm1` would give NaN at the ends."""

    @staticmethod
    def forward(ctx: Any, log_ratio: Tensor, divergence: Divergence) -> Tensor:
        ctx.save_for_backward(log_ratio)
        ctx.divergence = divergence
        return divergence._continued(log_ratio)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (log_ratio,) = ctx.saved_tensors
        return upstream * ctx.divergence.gradient(log_ratio), None


def _forward_kl(estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """KL(pi_ref || pi_theta). k1: f = -l. k3: f = u - 1 - l, the same expectation with its minimum at u = 1."""
    if estimator == "k1":
        return Divergence("forward_kl/k1", torch.neg, lambda log_ratio: -torch.ones_like(log_ratio), None)
    if estimator == "k3":
        return Divergence("forward_kl/k3", lambda log_ratio: torch.expm1(log_ratio) - log_ratio, torch.expm1, l_cap)
    raise ValueError(f"forward_kl has the estimators k1 and k3, not {estimator!r}")


def _js(js_scale: float = 1.0, l_cap: float = 3.0) -> Divergence:
    """Jensen-Shannon, generator form: f = u ln u - (u+1) ln((u+1)/2), times `js_scale` (0.5 is the textbook's)."""

    def g(log_ratio: Tensor) -> Tensor:
        return js_scale * log_ratio.exp() * (_LN2 - softplus(-log_ratio))

    def f(log_ratio: Tensor) -> Tensor:
        closed = g(log_ratio) - js_scale * (softplus(log_ratio) - _LN2)
        if log_ratio.dtype == torch.float64:
            return closed
        x = log_ratio.clamp(-_JS_SERIES_BELOW, _JS_SERIES_BELOW)
        series = js_scale * x * x * (1 / 4 + x * (1 / 8 + x * (1 / 32 + x * (1 / 192 + x / 1152))))
        return torch.where(log_ratio.abs() < _JS_SERIES_BELOW, series, closed)

    return Divergence("js", f, g, l_cap)


_DIVERGENCES: dict[str, Callable[..., Divergence]] = {"forward_kl": _forward_kl, "js": _js}


def divergence(name: str, **options: Any) -> Divergence:
    """The divergence of that name.

    Args:
        name: "forward_kl" (options `estimator` = "k3" | "k1", `l_cap`) or "js" (options `js_scale`, `l_cap`).

    Raises:
        ValueError: the name is unknown.
    """
    if name not in _DIVERGENCES:
        raise ValueError(f"unknown divergence {name!r}, known: {', '.join(_DIVERGENCES)}")
    return _DIVERGENCES[name](**options)
