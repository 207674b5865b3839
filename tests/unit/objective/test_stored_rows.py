"""Estimates of the divergences on stored responses: right answers from a nucleus, enumerated on one token."""

import pytest
import torch
from torch import Tensor

from dphrl.objective import divergence
from dphrl.objective.divergences import Divergence
from dphrl.objective.topk import topk_value

F64 = torch.float64
REFERENCE = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=F64)
# The nucleus of 0.9 leaves out the last token; the third one makes a wrong answer.
STORED = torch.tensor([2 / 3, 1 / 3, 0.0, 0.0], dtype=F64)
POLICY = torch.tensor([0.6, 0.1, 0.2, 0.1], dtype=F64)
K1, K3 = divergence("forward_kl", estimator="k1"), divergence("forward_kl")
ANCHORS = [
    K3,
    divergence("js"),
    divergence("alpha", alpha=0.2),
    divergence("alpha", alpha=0.8),
    divergence("reverse_kl", samples="reference"),
    divergence("js_definition"),
]


def _mean(form: Divergence, drawn: Tensor, policy: Tensor) -> Tensor:
    return (drawn * form.value(policy.log() - REFERENCE.log())).sum()


def _gradient(form: Divergence, drawn: Tensor, policy: Tensor) -> Tensor:
    logits = policy.log().requires_grad_()
    return torch.autograd.grad(_mean(form, drawn, logits.softmax(0)), logits)[0]


def test_k1_and_k3_agree_on_samples_of_the_reference_and_not_on_stored_responses() -> None:
    assert _mean(K1, REFERENCE, POLICY).item() == pytest.approx(_mean(K3, REFERENCE, POLICY).item(), abs=1e-14)
    assert abs(_mean(K1, STORED, POLICY) - _mean(K3, STORED, POLICY)) > 0.05


@pytest.mark.parametrize("form", ANCHORS, ids=lambda form: form.name)
def test_an_anchor_has_no_gradient_at_the_reference(form: Divergence) -> None:
    assert _gradient(form, STORED, REFERENCE).abs().max() < 1e-14
    assert _mean(form, STORED, REFERENCE) == pytest.approx(0, abs=1e-15)
    assert _mean(form, STORED, POLICY) > 0.001


def test_k1_descends_the_kl_of_the_stored_responses_and_leaves_the_reference() -> None:
    """The expected gradient of -log pi is pi - q: it ends at q, which has only the stored tokens."""
    for policy in (POLICY, REFERENCE):
        torch.testing.assert_close(_gradient(K1, STORED, policy), policy - STORED, atol=1e-14, rtol=0)


@pytest.mark.parametrize("form", ANCHORS, ids=lambda form: form.name)
def test_topk_on_stored_responses_has_the_terms_of_the_k_tokens(form: Divergence) -> None:
    """The two tokens that are drawn are the K = 2: no variance, and not the mean over stored responses."""
    log_ratio = POLICY.log() - REFERENCE.log()
    top = (log_ratio[:2].expand(2, 2), REFERENCE.log()[:2].expand(2, 2), log_ratio[:2], torch.ones(2, dtype=torch.bool))
    expected = (REFERENCE[:2] * form.value(log_ratio[:2])).sum()
    torch.testing.assert_close(topk_value(form, *top), expected.expand(2), atol=1e-15, rtol=0)
    assert abs(expected - _mean(form, STORED, POLICY)) > 0.001
    assert abs(expected - _mean(form, REFERENCE, POLICY)) > 0.001
