"""Exact expectations and gradients of every divergence on small softmax policies.

Whole responses are in test_sequences.py.
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dphrl.objective import divergence
from dphrl.objective.divergences import Divergence
from dphrl.objective.importance import OffPolicy, off_policy

F64 = torch.float64
Exact = Callable[[Tensor, Tensor], Tensor]
LOGITS = (1.0, -0.3, 0.2, 0.6)
REFERENCE = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=F64)
OLD = torch.tensor([0.25, 0.3, 0.4, 0.05], dtype=F64)


def _forward_kl(policy: Tensor, reference: Tensor) -> Tensor:
    return (reference * (reference / policy).log()).sum()


def _reverse_kl(policy: Tensor, reference: Tensor) -> Tensor:
    return _forward_kl(reference, policy)


def _reference_to_mixture(policy: Tensor, reference: Tensor) -> Tensor:
    return _forward_kl((policy + reference) / 2, reference)


def _policy_to_mixture(policy: Tensor, reference: Tensor) -> Tensor:
    return _forward_kl((policy + reference) / 2, policy)


def _js(policy: Tensor, reference: Tensor) -> Tensor:
    return _policy_to_mixture(policy, reference) + _reference_to_mixture(policy, reference)


def _alpha(alpha: float) -> Exact:
    return lambda policy, reference: ((policy ** (1 - alpha) * reference**alpha).sum() - 1) / (alpha * (alpha - 1))


# On samples of the reference both the expected value and the expected gradient are the divergence's.
EXACT: list[tuple[Divergence, Exact, float, float]] = [
    (divergence("forward_kl", estimator="k1"), _forward_kl, 1, 0.0920328502338),
    (divergence("forward_kl"), _forward_kl, 1, 0.0920328502338),
    (divergence("js"), _js, 1, 0.0438023579370),
    (divergence("js", js_scale=0.5), _js, 0.5, 0.0219011789685),
    (divergence("alpha", alpha=0.2), _alpha(0.2), 1, 0.0861993559802),
    (divergence("alpha", alpha=0.5), _alpha(0.5), 1, 0.0880867646976),
    (divergence("alpha", alpha=0.8), _alpha(0.8), 1, 0.0903270377108),
    (divergence("reverse_kl", samples="reference"), _reverse_kl, 1, 0.0851228259572),
    (divergence("js_definition", estimator="k1"), _reference_to_mixture, 1, 0.0210721031316),
    (divergence("js_definition", estimator="k3"), _reference_to_mixture, 1, 0.0210721031316),
]
NAMES = [form.name for form, *_ in EXACT]


def _gradients(form: Divergence, exact: Exact) -> tuple[Tensor, Tensor]:
    """Of the expected loss, with the samples held fixed as in training, and of the divergence itself."""
    logits = torch.tensor(LOGITS, dtype=F64, requires_grad=True)
    logprobs = logits.log_softmax(0)
    drawn = REFERENCE if form.samples == "reference" else logprobs.detach().exp()
    (found,) = torch.autograd.grad((drawn * form.value(logprobs - REFERENCE.log())).sum(), logits)
    return found, _exact_gradient(exact)


def _exact_gradient(exact: Exact) -> Tensor:
    logits = torch.tensor(LOGITS, dtype=F64, requires_grad=True)
    return torch.autograd.grad(exact(logits.softmax(0), REFERENCE), logits)[0]


@pytest.mark.parametrize(("form", "exact", "factor", "expected"), EXACT, ids=NAMES)
def test_expectation_and_expected_gradient_under_the_reference_are_the_divergences(
    form: Divergence, exact: Exact, factor: float, expected: float
) -> None:
    reference = torch.tensor([0.5, 0.3, 0.2], dtype=F64)
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=F64)
    assert (reference * form.value((policy / reference).log())).sum().item() == pytest.approx(expected, abs=1e-12)
    assert factor * exact(policy, reference).item() == pytest.approx(expected, abs=1e-12)
    of_form, of_divergence = _gradients(form, exact)
    torch.testing.assert_close(of_form, factor * of_divergence, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("form", "exact"),
    [
        (divergence("reverse_kl", estimator="k2"), _reverse_kl),
        # The published reverse-KL baseline: as a loss its gradient is the forward KL's.
        (divergence("reverse_kl", estimator="k3"), _forward_kl),
        (divergence("js_definition", samples="policy", estimator="exact"), _policy_to_mixture),
    ],
    ids=lambda value: value.name if isinstance(value, Divergence) else "",
)
def test_expected_gradient_under_the_policy(form: Divergence, exact: Exact) -> None:
    found, expected = _gradients(form, exact)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (divergence("reverse_kl"), 0.0851228259572),
        (divergence("js_definition", samples="policy", estimator="k3"), 0.0227302548054),
        (divergence("js_definition", samples="policy", estimator="exact"), 0.0227302548054),
    ],
    ids=lambda value: value.name if isinstance(value, Divergence) else "",
)
def test_expectation_under_the_policy_is_the_divergence(form: Divergence, expected: float) -> None:
    reference = torch.tensor([0.5, 0.3, 0.2], dtype=F64)
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=F64)
    assert (policy * form.value((policy / reference).log())).sum().item() == pytest.approx(expected, abs=1e-12)


def test_k3_of_the_policy_half_is_right_to_first_order_only() -> None:
    found, expected = _gradients(divergence("js_definition", samples="policy"), _policy_to_mixture)
    assert torch.cosine_similarity(found, expected, dim=0).item() == pytest.approx(0.8779, abs=1e-4)


# Samples of pi_old, which is neither the policy nor the reference.


def _off_policy_gradient(form: Divergence, how: OffPolicy | None, cap: float | None = None) -> Tensor:
    logits = torch.tensor(LOGITS, dtype=F64, requires_grad=True)
    logprobs = logits.log_softmax(0)
    values = form.value(logprobs - REFERENCE.log())
    if how is not None:
        values, _ = off_policy(values, logprobs, OLD.log(), how, cap)
    return torch.autograd.grad((OLD * values).sum(), logits)[0]


K2, K3 = (divergence("reverse_kl", estimator=estimator) for estimator in ("k2", "k3"))
HALF, EXACT_HALF = (divergence("js_definition", samples="policy", estimator=e) for e in ("k3", "exact"))


@pytest.mark.parametrize("form", [K2, K3, HALF, EXACT_HALF], ids=lambda form: form.name)
def test_weighted_samples_of_the_old_policy_have_the_gradient_of_samples_of_the_policy(form: Divergence) -> None:
    on_policy = _gradients(form, _reverse_kl)[0]
    torch.testing.assert_close(_off_policy_gradient(form, "weight"), on_policy, atol=1e-12, rtol=0)
    assert (_off_policy_gradient(form, None) - on_policy).abs().max() > 0.01


def test_differentiated_k3_on_the_old_policy_descends_the_reverse_kl() -> None:
    torch.testing.assert_close(
        _off_policy_gradient(K3, "differentiate"), _exact_gradient(_reverse_kl), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("how", ["weight", "differentiate"])
def test_the_cap_bounds_the_ratio_and_names_the_tokens(how: OffPolicy) -> None:
    """With f = 2 log pi + 1 the derivative by log pi is rho * 2, and where rho passes its gradient rho * f more."""
    logprobs = torch.tensor([0.5, 2.0, 4.0], dtype=F64).log().requires_grad_()
    losses, capped = off_policy(2 * logprobs + 1, logprobs, torch.zeros(3, dtype=F64), how, 3.0)
    f = [2 * math.log(x) + 1 for x in (0.5, 2.0, 4.0)]
    assert losses.tolist() == pytest.approx([0.5 * f[0], 2 * f[1], 3 * f[2]])
    assert capped.tolist() == [False, False, True]
    (found,) = torch.autograd.grad(losses.sum(), logprobs)
    more = [0.5 * f[0], 2 * f[1], 0.0] if how == "differentiate" else [0.0] * 3
    assert found.tolist() == pytest.approx([1 + more[0], 4 + more[1], 6])


def test_without_a_cap_no_token_is_capped_and_far_ratios_stay_finite() -> None:
    logprobs = torch.tensor([0.0, -1e4], requires_grad=True)
    losses, capped = off_policy(logprobs, logprobs, torch.tensor([-1e4, 0.0]), "differentiate", None)
    (found,) = torch.autograd.grad(losses.sum(), logprobs)
    assert losses.isfinite().all()
    assert found.isfinite().all()
    assert not capped.any()
