"""The divergences by name (arXiv 2509.07430, Table 5 and Appendix E); x is the log-ratio, u = exp(x).

The closed forms are written for float64, where they keep their digits near x = 0 too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dphrl.objective.divergences import Divergence, Samples

# Up to here u * 1e4 is far inside float32.
_LARGEST_CAP = 50.0


def _forward_kl(estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """KL(pi_ref || pi_theta). k1: f = -ln u. k3: f = u - 1 - ln u, the same expectation with its minimum at u = 1."""
    if estimator == "k1":
        return Divergence("forward_kl/k1", torch.neg, lambda x: -torch.ones_like(x))
    if estimator == "k3":
        return Divergence("forward_kl/k3", lambda x: torch.expm1(x) - x, torch.expm1, l_cap)
    raise ValueError(f"forward_kl has the estimators k1 and k3, not {estimator!r}")


def _js(js_scale: float = 1.0, l_cap: float = 3.0) -> Divergence:
    """Jensen-Shannon, generator form: f = u ln u - (u+1) ln((u+1)/2), times `js_scale` (0.5 is the textbook's)."""

    def g(x: Tensor) -> Tensor:
        return js_scale * x.exp() * _to_mixture(x)

    return Divergence("js", lambda x: g(x) + js_scale * _to_mixture(-x), g, l_cap)


def _alpha(alpha: float = 0.5, l_cap: float = 3.0) -> Divergence:
    """f = (u^(1-a) - (1-a) u - a) / (a (a-1)); a = 1 is forward_kl, a = 0 is u ln u - u + 1, both as limits."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be in [0, 1], got {alpha}")

    def g(x: Tensor) -> Tensor:
        return ((1 - alpha) * x).exp() * _power(alpha, x)

    # Each half of [0, 1] has the form that divides by the larger of a and 1 - a, so both limits keep all digits.
    def f(x: Tensor) -> Tensor:
        if alpha < 0.5:
            return (g(x) - torch.expm1(x)) / (1 - alpha)
        return (torch.expm1(x) - _power(1 - alpha, x)) / alpha

    return Divergence(f"alpha/{alpha:g}", f, g, l_cap)


def _reverse_kl(samples: Samples = "policy", estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """KL(pi_theta || pi_ref).

    On policy samples: k3, the published baseline, whose expected gradient is that of the *forward* KL; k2 = (ln u)^2/2,
    whose expected gradient is that of the reverse KL. On reference samples: k3 = u ln u - u + 1.
    """
    match samples, estimator:
        case "reference", "k3":
            return replace(_alpha(0.0, l_cap), name="reverse_kl/reference/k3")
        case "policy", "k3":
            return _forward_kl("k3", l_cap).mirrored("reverse_kl/policy/k3")
        case "policy", "k2":
            return Divergence("reverse_kl/policy/k2", lambda x: x.square() / 2, torch.clone, samples="policy")
        case "policy", "k1":
            raise ValueError("reverse_kl k1 as a loss has the expected gradient 0: use k2, or reward_k1 in the reward")
    raise ValueError(f"reverse_kl has reference/k3, policy/k3 and policy/k2, not {samples}/{estimator}")


def _js_definition(samples: Samples = "reference", estimator: str = "k3", l_cap: float = 3.0) -> Divergence:
    """One half of Jensen-Shannon by its definition, with the mixture M = (pi_theta + pi_ref) / 2.

    On reference samples KL(pi_ref || M): k1 = -ln r and k3 = r - 1 - ln r with r = M / pi_ref, both with the exact
    expected gradient. On policy samples KL(pi_theta || M): k3 with r = M / pi_theta, right to first order only, because
    the samples move with the policy; "exact" has the value ln(pi_theta / M) and as gradient the score-function weight
    ln(2u/(1+u)) + 1/(1+u) - 1/2, where the constant changes no expectation and makes equal policies weigh 0.
    """
    match samples, estimator:
        case "reference", "k1":
            return Divergence("js_definition/reference/k1", lambda x: _to_mixture(-x), lambda x: -torch.sigmoid(x))
        case "reference", "k3":
            return _reference_half(l_cap)
        case "policy", "k3":
            return _reference_half(l_cap).mirrored("js_definition/policy/k3")
        case "policy", "exact":
            return Divergence("js_definition/policy/exact", _to_mixture, _score_weight, samples="policy")
        case "policy", "k1":
            raise ValueError("js_definition k1 as a loss on policy samples points away from the reference: k3 or exact")
    raise ValueError(f"js_definition has reference/k1, k3 and policy/k3, exact, not {samples}/{estimator}")


def _reference_half(l_cap: float) -> Divergence:
    return Divergence(
        "js_definition/reference/k3",
        lambda x: torch.expm1(x) / 2 + _to_mixture(-x),
        lambda x: torch.expm1(x) * torch.sigmoid(x) / 2,
        l_cap,
    )


def _to_mixture(x: Tensor) -> Tensor:
    """ln(pi_theta / M) = ln(2u / (1 + u)), with all its digits at both ends and near 0; at -x it is ln(pi_ref / M)."""
    return x.clamp(max=0) - torch.log1p(torch.expm1(-x.abs()) / 2)


def _score_weight(x: Tensor) -> Tensor:
    """ln(2u / (1 + u)) + 1 / (1 + u) - 1/2."""
    return _to_mixture(x) - torch.tanh(x / 2) / 2


def _power(c: float, x: Tensor) -> Tensor:
    """(u^c - 1) / c, which is ln u for c = 0."""
    return torch.expm1(c * x) / c if c else x


_FORMS: dict[str, Callable[..., Divergence]] = {
    "forward_kl": _forward_kl,
    "js": _js,
    "alpha": _alpha,
    "reverse_kl": _reverse_kl,
    "js_definition": _js_definition,
}


def divergence(name: str, **options: Any) -> Divergence:
    """The divergence of that name.

    Args:
        name: with its options:
            "forward_kl": `estimator` = "k3" | "k1".
            "js": `js_scale` = 1.0 (0.5: the textbook's mean of the two KL).
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
