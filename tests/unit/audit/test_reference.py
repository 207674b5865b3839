"""How many stored responses the audit recomputes."""

import pytest

from dphrl.audit.reference import affordable

ROWS = [3300] * 16


@pytest.mark.parametrize(
    ("weights", "rows"),
    [
        (2_000_000, list(range(16))),
        (494_000_000, [0, 2, 4, 6, 8, 10, 12, 14]),  # 5.2e13 operations for all
        (1_540_000_000, [0, 6, 12]),  # 1.6e14
        (8_030_000_000, [0]),
        (32_760_000_000, [0]),
    ],
)
def test_rows_that_are_recomputed_are_fewer_of_a_large_model(weights: int, rows: list[int]) -> None:
    assert affordable(ROWS, weights) == rows


def test_short_rows_of_a_large_model_are_all_recomputed() -> None:
    assert affordable([100] * 16, 8_030_000_000) == list(range(16))
