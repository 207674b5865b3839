"""Data order and learning rate: pure functions of seed and step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.training.schedule import epoch_indices, learning_rate

SEEDS, TOTALS, PER_STEP = st.integers(0, 5), st.integers(1, 20), st.integers(1, 9)


def _stream(seed: int, steps: int, per_step: int, total: int, label: str = "prompts") -> list[int]:
    return [i for step in range(1, steps + 1) for i in epoch_indices(seed, label, step, per_step, total)]


@given(seed=SEEDS, total=TOTALS, per_step=PER_STEP)
def test_each_pass_takes_every_index_once(seed: int, total: int, per_step: int) -> None:
    stream = _stream(seed, 3 * total, per_step, total)
    for start in range(0, 3 * total, total):
        assert sorted(stream[start : start + total]) == list(range(total))


@given(seed=SEEDS, total=TOTALS, parts=st.integers(1, 4), step=st.integers(1, 10))
def test_the_stream_does_not_depend_on_the_size_of_a_step(seed: int, total: int, parts: int, step: int) -> None:
    assert _stream(seed, step * parts, 2, total) == _stream(seed, step, 2 * parts, total)


def test_the_order_is_this_one() -> None:
    """Fixed for good: another order would change every run."""
    assert epoch_indices(1, "prompts", 1, 8, 8) == [3, 6, 0, 5, 4, 7, 1, 2]
    assert epoch_indices(1, "prompts", 2, 8, 8) == [4, 6, 1, 2, 3, 7, 5, 0]


def test_seeds_labels_and_passes_have_different_orders() -> None:
    orders = [
        tuple(epoch_indices(seed, label, step, 30, 30))
        for seed in (1, 2)
        for label in ("prompts", "rehearsal")
        for step in (1, 2)
    ]
    assert len(set(orders)) == 8
    assert tuple(range(30)) not in orders


def test_learning_rate_rises_and_stays() -> None:
    assert [learning_rate(step, 0.4, 4) for step in (1, 2, 4, 5, 100)] == pytest.approx([0.1, 0.2, 0.4, 0.4, 0.4])
    assert [learning_rate(step, 0.4, 0) for step in (1, 2)] == [0.4, 0.4]
