"""The weights that make one loss of the rollouts and the stored responses."""

import pytest

from dphrl.objective.aggregation import Norm, component_weights, js_beta


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
