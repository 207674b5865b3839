"""How the losses of both kinds of rows become one, whatever the cut into micro-batches."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dphrl.objective import divergence, policy_loss
from dphrl.objective.aggregation import Norm, component_weights, js_beta

F64 = torch.float64


def _aggregate(exploration: list[list[float]], rehearsal: list[list[float]], eta: float, norm: str) -> float:
    rows, tokens = zip(*((len(part), sum(map(len, part))) for part in (exploration, rehearsal)), strict=True)
    weights = component_weights(rows, tokens, eta, norm)  # type: ignore[arg-type]
    return weights.exploration * sum(map(sum, exploration)) + weights.rehearsal * sum(map(sum, rehearsal))


def test_the_mean_is_over_tokens_not_over_sequences() -> None:
    sequences = [[1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    assert _aggregate(sequences, [], 0.0, "separate") == pytest.approx(1 / 3)
    assert _aggregate(sequences, [], 0.0, "joint") == pytest.approx(1 / 3)
    assert _aggregate([[0.0]], sequences, 1.0, "separate") == pytest.approx(1 / 3)


def test_separate_adds_the_two_means() -> None:
    assert _aggregate([[1.0, 3.0], [2.0]], [[5.0], [7.0, 9.0]], 0.5, "separate") == pytest.approx(2 + 0.5 * 7)


def test_joint_weighs_the_means_by_rows() -> None:
    found = _aggregate([[1.0, 3.0], [2.0], [2.0]], [[5.0, 9.0, 7.0]], 0.5, "joint")
    assert found == pytest.approx((3 * 2 + 0.5 * 1 * 7) / 4)


def test_tokens_is_one_mean_over_all_tokens() -> None:
    found = _aggregate([[1.0, 3.0], [2.0], [2.0]], [[5.0, 9.0, 7.0]], 0.5, "tokens")
    assert found == pytest.approx((1 + 3 + 2 + 2 + 0.5 * (5 + 9 + 7)) / 7)
    weights = component_weights((2048, 256), (400_000, 20_000), 0.2, "tokens")
    assert weights.rehearsal * 20_000 / (weights.exploration * 400_000) == pytest.approx(0.2 * 20_000 / 400_000)


@pytest.mark.parametrize("eta", [0.01, 0.2])
def test_at_eight_to_one_joint_rehearses_with_an_eighth_of_eta(eta: float) -> None:
    rows, tokens = (128 * 16, 256), (400_000, 20_000)
    joint, separate = (component_weights(rows, tokens, eta, norm) for norm in ("joint", "separate"))
    assert joint.rehearsal / joint.exploration == pytest.approx(separate.rehearsal / separate.exploration / 8)
    assert joint.rehearsal * tokens[1] / (joint.exploration * tokens[0]) == pytest.approx(eta / 8)
    assert joint.exploration * tokens[0] == pytest.approx(8 / 9)


def test_eta_zero_is_exploration_alone() -> None:
    rows, tokens = (16, 2), (300, 20)
    alone = component_weights((16, 0), (300, 0), 0.0, "separate")
    assert component_weights(rows, tokens, 0.0, "separate") == alone
    joint = component_weights(rows, tokens, 0.0, "joint")
    assert joint.rehearsal == 0.0
    assert joint.exploration * 18 / 16 == pytest.approx(alone.exploration)


@pytest.mark.parametrize("norm", ["joint", "separate", "tokens"])
def test_a_part_without_tokens_weighs_nothing(norm: str) -> None:
    assert component_weights((0, 4), (0, 9), 1.0, norm).exploration == 0.0  # type: ignore[arg-type]
    assert component_weights((4, 0), (9, 0), 1.0, norm).rehearsal == 0.0  # type: ignore[arg-type]


def test_the_rollouts_divergence_weighs_eta_beta_of_the_policy_loss() -> None:
    for norm in ("joint", "separate", "tokens"):
        found = component_weights((16, 2), (300, 20), 0.2, norm, beta=0.125)  # type: ignore[arg-type]
        without = component_weights((16, 2), (300, 20), 0.2, norm)  # type: ignore[arg-type]
        assert found.rollout_divergence == pytest.approx(0.2 * 0.125 * found.exploration)
        assert (found.exploration, found.rehearsal) == (without.exploration, without.rehearsal)
        assert without.rollout_divergence == 0.0


@pytest.mark.parametrize(("norm", "beta"), [("separate", 1.0), ("joint", 0.125), ("tokens", 0.05)])
def test_both_halves_of_js_by_definition_weigh_alike(norm: Norm, beta: float) -> None:
    rows, tokens = (2048, 256), (400_000, 20_000)
    assert js_beta(rows, tokens, norm) == pytest.approx(beta)
    found = component_weights(rows, tokens, 0.2, norm, beta=js_beta(rows, tokens, norm))
    assert found.rollout_divergence * tokens[0] == pytest.approx(found.rehearsal * tokens[1])


def test_beta_needs_rollouts() -> None:
    with pytest.raises(ValueError, match="no row of D_exp"):
        js_beta((0, 4), (0, 9), "joint")


class Row(NamedTuple):
    """A response: D_pef where `rehearsal`, else D_exp."""

    rehearsal: bool
    tokens: list[tuple[float, float]]


numbers = st.floats(-2, 2, width=32)
rows_of_both_kinds = st.lists(
    st.builds(Row, st.booleans(), st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4)), min_size=2, max_size=8
).filter(lambda rows: {row.rehearsal for row in rows} == {True, False})

STORED_HALF = divergence("js_definition")
ROLLOUT_HALF = divergence("js_definition", samples="policy")
SCALE = torch.tensor(1.0, dtype=F64)


def _micro_batch(rows: Sequence[Row], weights: tuple[float, float, float], scale: Tensor) -> Tensor:
    """Each token routed by the kind of its row; a token is (log pi_theta, log pi_ref) up to `scale`."""
    tokens = torch.tensor([token for row in rows for token in row.tokens], dtype=F64)
    rehearsal = torch.tensor([row.rehearsal for row in rows for _ in row.tokens])
    logprobs, reference = scale * tokens[:, 0], tokens[:, 1]
    # Advantages of both signs; the reference is the policy that sampled.
    surrogate = policy_loss(logprobs, reference, reference.sign(), eps_low=0.2, eps_high=0.28, dual_clip=3.0)
    explored = surrogate.loss.masked_fill(rehearsal, 0.0)
    log_ratio = logprobs - reference
    rehearsed = STORED_HALF.value(log_ratio).masked_fill(~rehearsal, 0.0)
    on_rollouts = ROLLOUT_HALF.value(log_ratio).masked_fill(rehearsal, 0.0)
    return weights[0] * explored.sum() + weights[1] * rehearsed.sum() + weights[2] * on_rollouts.sum()


def _weights(rows: Sequence[Row], norm: Norm) -> tuple[float, float, float]:
    parts = [[row for row in rows if row.rehearsal == rehearsal] for rehearsal in (False, True)]
    counts = (len(parts[0]), len(parts[1]))
    tokens = (sum(len(row.tokens) for row in parts[0]), sum(len(row.tokens) for row in parts[1]))
    found = component_weights(counts, tokens, 0.2, norm, beta=js_beta(counts, tokens, norm))
    return found.exploration, found.rehearsal, found.rollout_divergence


def _loss_and_gradient(cut: Sequence[Sequence[Row]], weights: tuple[float, float, float]) -> Tensor:
    scale = SCALE.clone().requires_grad_()
    loss = torch.stack([_micro_batch(part, weights, scale) for part in cut]).sum()
    return torch.stack([loss.detach(), *torch.autograd.grad(loss, scale)])


@pytest.mark.parametrize("norm", ["joint", "separate", "tokens"])
@settings(max_examples=50, deadline=None)
@given(rows=rows_of_both_kinds, data=st.data())
def test_order_and_cut_change_nothing_and_the_kinds_add_up(norm: Norm, rows: list[Row], data: st.DataObject) -> None:
    weights = _weights(rows, norm)
    whole = _loss_and_gradient([rows], weights)
    shuffled = data.draw(st.permutations(rows))
    at = data.draw(st.integers(1, len(rows) - 1))
    torch.testing.assert_close(_loss_and_gradient([shuffled[:at], shuffled[at:]], weights), whole, atol=1e-12, rtol=0)
    alone = [_loss_and_gradient([[row for row in rows if row.rehearsal == kind]], weights) for kind in (True, False)]
    torch.testing.assert_close(alone[0] + alone[1], whole, atol=1e-12, rtol=0)
