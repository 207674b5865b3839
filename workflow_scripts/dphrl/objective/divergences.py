"""What a divergence of policy and reference is, per token (arXiv 2509.07430, Table 5). The forms are in `forms`.

With l = log pi_theta(a|s) - log pi_ref(a|s) and u = exp(l), a loss is E_a[f(u)] and its gradient g(l) * grad log
pi_theta(a|s). Everything is computed from l, never from u: exp(l) overflows float32 beyond 88.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Samples = Literal["reference", "policy"]


@dataclass(frozen=True)
class Divergence:
    """One divergence: `value` and `gradient` per token, finite for |log-ratio| <= 1e4.

    On samples of the reference f can grow like exp(l), on samples of the policy like exp(-l). On that side it continues
    linearly beyond `l_cap`, with the slope that it has there.

    Args:
        name: as in the config, with its options.
        f: l -> token value, a closed form in float64, right up to the cap.
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
        value: Tensor = _Value.apply(_finite(log_ratio), self)
        return value

    def gradient(self, log_ratio: Tensor) -> Tensor:
        """g = d f / d log pi_theta per token; shapes, types and errors as for `value`."""
        return self._gradient(_finite(log_ratio))

    def mirrored(self, name: str) -> Divergence:
        """The form for the other's samples: they see the inverse ratio, so f(-l) and -g(-l)."""
        other: Samples = "policy" if self.samples == "reference" else "reference"
        return Divergence(name, lambda x: self.f(-x), lambda x: -self.g(-x), self.l_cap, other)

    def _value(self, log_ratio: Tensor) -> Tensor:
        exact = log_ratio.double()
        inside = self._inside(exact)
        value = self.f(inside)
        if self.l_cap is not None:
            value = value + self.g(inside) * (exact - inside)
        return value.to(log_ratio.dtype)

    def _gradient(self, log_ratio: Tensor) -> Tensor:
        return self.g(self._inside(log_ratio.double())).to(log_ratio.dtype)

    def _inside(self, log_ratio: Tensor) -> Tensor:
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
    """The log-ratios in float32 or float64, where all are numbers."""
    if not torch.isfinite(log_ratio).all():
        first = (~torch.isfinite(log_ratio)).nonzero()[0].tolist()
        raise ValueError(
            f"log-ratio at {first} is {log_ratio[tuple(first)].item()}: a stored reference log-prob or the policy's"
            " is not finite; check the reference responses and the learning rate"
        )
    return log_ratio if log_ratio.dtype == torch.float64 else log_ratio.float()
