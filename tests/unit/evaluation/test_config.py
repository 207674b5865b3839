"""The evaluate block."""

from dphrl.config.blocks.evaluation import EvaluateConfig


def test_k_and_temperatures_are_ascending_however_they_are_written():
    config = EvaluateConfig(k=[8, 1, 8], hotter=[1.6, 1.3])
    assert (config.k, config.hotter) == ((1, 8), (1.3, 1.6))
