"""Exact expectations over whole responses: a policy of at most two tokens, all of whose responses are enumerated."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dphrl.objective import divergence, policy_loss
from dphrl.objective.advantages import k1_penalties

F64 = torch.float64
END = 2
# A response ends with END or has two tokens. The states are the start and the first token.
RESPONSES = [(END,), *product((0, 1), (0, 1, END))]
LOGITS = torch.tensor([[0.4, -0.2, -0.9], [2.0, -1.0, 0.1], [-0.3, 0.5, 0.2]], dtype=F64)
REFERENCE = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.3, 0.6], [0.3, 0.4, 0.3]], dtype=F64).log()


def _logprobs(table: Tensor, response: Sequence[int]) -> Tensor:
    states = [0, *(token + 1 for token in response[:-1])]
    return table[states, list(response)]


def _chance(table: Tensor, response: Sequence[int]) -> Tensor:
    return _logprobs(table, response).sum().exp()


def _gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss, logits)[0]


def _exact(logits: Tensor) -> Tensor:
    """KL(theta || ref) of whole responses."""
    table = logits.log_softmax(1)
    return torch.stack(
        [_chance(table, y) * (_logprobs(table, y) - _logprobs(REFERENCE, y)).sum() for y in RESPONSES]
    ).sum()


@pytest.mark.parametrize("to_go", [False, True], ids=["reward_k1", "to_go"])
@pytest.mark.parametrize("group", [2, 3])
def test_both_forms_in_the_advantage_descend_the_reverse_kl_of_whole_responses(group: int, to_go: bool) -> None:
    """Over all groups of independent responses, with the policy loss that training has."""
    logits = LOGITS.clone().requires_grad_()
    table = logits.log_softmax(1)
    losses = []
    for responses in product(RESPONSES, repeat=group):
        ours = [_logprobs(table, y) for y in responses]
        penalties = k1_penalties(
            [p - _logprobs(REFERENCE, y) for p, y in zip(ours, responses, strict=True)], group, to_go
        )
        flat = torch.cat(ours)
        result = policy_loss(flat, flat.detach(), -torch.cat(penalties), eps_low=0.2, eps_high=0.28, dual_clip=None)
        losses.append(torch.cat(ours).detach().sum().exp() * result.loss.sum() / group)
    found = _gradient(torch.stack(losses).sum(), logits)
    again = LOGITS.clone().requires_grad_()
    torch.testing.assert_close(found, _gradient(_exact(again), again), atol=1e-13, rtol=0)


@pytest.mark.parametrize(("estimator", "forward"), [("k2", False), ("k3", True)])
def test_k2_and_k3_descend_the_kl_of_each_token_with_the_states_held_fixed(estimator: str, forward: bool) -> None:
    """k2 the reverse KL, k3 the forward KL; how the first token changes the second one's state is left out."""
    logits = LOGITS.clone().requires_grad_()
    table = logits.log_softmax(1)
    form = divergence("reverse_kl", estimator=estimator)
    found = _gradient(
        torch.stack(
            [
                _chance(table, y).detach() * form.value(_logprobs(table, y) - _logprobs(REFERENCE, y)).sum()
                for y in RESPONSES
            ]
        ).sum(),
        logits,
    )
    again = LOGITS.clone().requires_grad_()
    table = again.log_softmax(1)
    visits = torch.tensor([1.0, *LOGITS[0].softmax(0)[:END]], dtype=F64)
    ours, theirs = (REFERENCE, table) if forward else (table, REFERENCE)
    of_states = (ours.exp() * (ours - theirs)).sum(1)
    torch.testing.assert_close(found, _gradient((visits * of_states).sum(), again), atol=1e-13, rtol=0)
    if not forward:
        whole = LOGITS.clone().requires_grad_()
        cosine = torch.cosine_similarity(found.flatten(), _gradient(_exact(whole), whole).flatten(), dim=0)
        assert cosine.item() == pytest.approx(0.84, abs=0.005)


def test_forward_kl_per_token_is_that_of_whole_responses_and_js_is_not() -> None:
    """Equation (6) has the ratio of whole responses, the code a token's: equal by the chain rule for forward KL."""
    table = LOGITS.log_softmax(1)
    chances = torch.stack([_chance(REFERENCE, y) for y in RESPONSES])
    log_ratios = [_logprobs(table, y) - _logprobs(REFERENCE, y) for y in RESPONSES]
    of_wholes = torch.stack([part.sum() for part in log_ratios])

    def both(name: str) -> tuple[float, float]:
        form = divergence(name, l_cap=50.0)
        by_token = torch.stack([form.value(part).sum() for part in log_ratios])
        return (chances * by_token).sum().item(), (chances * form.value(of_wholes)).sum().item()

    by_token, whole = both("forward_kl")
    assert by_token == pytest.approx(whole, abs=1e-14)
    for name in ("js", "alpha"):
        by_token, whole = both(name)
        assert abs(by_token - whole) > 0.003


def test_penalty_vectors() -> None:
    """Sums to go .25, -.25 and 1, 0 (ended); whole responses .25 and 1."""
    log_ratios = [torch.tensor([0.5, -0.25], dtype=F64, requires_grad=True), torch.tensor([1.0], dtype=F64)]
    to_go, whole = (k1_penalties(log_ratios, 2, to_go=form) for form in (True, False))
    assert [part.tolist() for part in to_go] == [[-0.75, -0.25], [0.75]]
    assert [part.tolist() for part in whole] == [[-0.75, -0.75], [0.75]]
    assert not any(part.requires_grad for part in (*to_go, *whole))


@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=4), min_size=6, max_size=6),
    st.sampled_from([2, 3, 6]),
    st.booleans(),
)
def test_a_penalty_is_a_share_more_than_the_distance_to_the_groups_own_mean(
    rows: list[list[float]], group: int, to_go: bool
) -> None:
    """Of G / (G - 1); groups do not see each other, and neither do they the longest response."""
    log_ratios = [torch.tensor(row, dtype=F64) for row in rows]
    found = k1_penalties(log_ratios, group, to_go)
    for i, row in enumerate(rows):
        first = i // group * group
        others = rows[first : first + group]
        for t, penalty in enumerate(found[i].tolist()):
            sums = [sum(other[t:] if to_go else other) for other in others]
            assert penalty == pytest.approx((sums[i - first] - sum(sums) / group) * group / (group - 1), abs=1e-12), (
                row,
                t,
            )
        alone = k1_penalties(log_ratios[first : first + group], group, to_go)
        torch.testing.assert_close(found[i], alone[i - first], atol=1e-14, rtol=0)
