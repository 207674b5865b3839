"""The top-K estimator: right in expectation, and with Rao-Blackwell never of more variance than the single sample."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dphrl.objective import divergence
from dphrl.objective.divergences import Divergence, topk_value

F64 = torch.float64
FORMS = {
    "forward_kl k1": divergence("forward_kl", estimator="k1"),
    "forward_kl k3": divergence("forward_kl"),
    "js": divergence("js"),
    "alpha": divergence("alpha"),
    "reverse_kl": divergence("reverse_kl", samples="reference"),
    "js_definition": divergence("js_definition"),
}
VOCABULARY = 6
logits = st.lists(st.floats(-3, 3, width=32), min_size=VOCABULARY, max_size=VOCABULARY)
any_form = st.sampled_from(sorted(FORMS))


def _each_token(form: Divergence, policy: Tensor, reference: Tensor, k: int, *, rao_blackwell: bool) -> Tensor:
    """The estimate for every token that could have been sampled, (vocabulary,); the top K are the reference's."""
    log_ratio = policy.log_softmax(0) - reference.log()
    top = reference.topk(k).indices
    count = len(reference)
    return topk_value(
        form,
        log_ratio[top].expand(count, k),
        reference.log()[top].expand(count, k),
        log_ratio,
        torch.isin(torch.arange(count), top),
        rao_blackwell=rao_blackwell,
    )


def _pair(policy: list[float], reference: list[float]) -> tuple[Tensor, Tensor]:
    return torch.tensor(policy, dtype=F64, requires_grad=True), torch.tensor(reference, dtype=F64).softmax(0)


def _variance(values: Tensor, probabilities: Tensor) -> Tensor:
    """Of each column of (vocabulary, ...)."""
    weights = probabilities.reshape(-1, *[1] * (values.ndim - 1))
    return (weights * (values - (weights * values).sum(0)).square()).sum(0)


@given(policy=logits, reference=logits, k=st.integers(0, VOCABULARY), name=any_form, rao_blackwell=st.booleans())
def test_value_and_gradient_are_exact_in_expectation(
    policy: list[float], reference: list[float], k: int, name: str, rao_blackwell: bool
) -> None:
    leaf, probabilities = _pair(policy, reference)
    single = (probabilities * FORMS[name].value(leaf.log_softmax(0) - probabilities.log())).sum()
    found = (probabilities * _each_token(FORMS[name], leaf, probabilities, k, rao_blackwell=rao_blackwell)).sum()
    torch.testing.assert_close(found, single, atol=1e-12, rtol=1e-12)
    (expected_gradient,) = torch.autograd.grad(single, leaf)
    (gradient,) = torch.autograd.grad(found, leaf)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-12, rtol=1e-12)


@given(policy=logits, reference=logits, k=st.integers(0, VOCABULARY), name=any_form)
def test_rao_blackwell_never_varies_more_than_the_single_sample(
    policy: list[float], reference: list[float], k: int, name: str
) -> None:
    leaf, probabilities = _pair(policy, reference)

    def values(policy: Tensor, count: int) -> Tensor:
        return _each_token(FORMS[name], policy, probabilities, count, rao_blackwell=True)

    def gradients(count: int) -> Tensor:
        return torch.autograd.functional.jacobian(lambda policy: values(policy, count), leaf.detach())

    for found, single in ((values(leaf, k), values(leaf, 0)), (gradients(k), gradients(0))):
        below = _variance(single, probabilities) - _variance(found, probabilities)
        assert (below >= -1e-12 * (1 + single.square().max())).all()


@pytest.mark.parametrize("rao_blackwell", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_no_top_tokens_is_the_single_sample_and_all_have_no_variance(name: str, rao_blackwell: bool) -> None:
    leaf, probabilities = _pair([1.0, -0.3, 0.2, 0.6, 0.0, -2.0], [0.0, 1.0, -1.0, 0.5, 2.0, 0.1])
    single = FORMS[name].value(leaf.log_softmax(0) - probabilities.log())
    none = _each_token(FORMS[name], leaf, probabilities, 0, rao_blackwell=rao_blackwell)
    assert torch.equal(none, single)
    assert torch.autograd.grad(none.sum(), leaf)[0].isfinite().all()
    every = _each_token(FORMS[name], leaf, probabilities, VOCABULARY, rao_blackwell=rao_blackwell)
    torch.testing.assert_close(every, (probabilities * single).sum().expand(VOCABULARY), atol=1e-14, rtol=0)
