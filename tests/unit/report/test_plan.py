"""The content of the report, as the configuration plans it."""

from dphrl.evaluation.keep_explore import FIRST
from dphrl.report import plan


def test_a_second_draw_needs_as_many_samples_as_the_evaluation_splits() -> None:
    assert plan._SECOND_DRAW == 2 * FIRST
