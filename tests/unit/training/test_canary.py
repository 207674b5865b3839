"""The canary's rule in bfloat16, simulated: how often it stops a right training, and which wrong weights it finds.

Rounding is drawn anew at each push: normal, with a scale of each position and of each text that are lognormal.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dphrl.training.canary import MISMATCHES, TEXTS, TOKENS, Canary

# Standard deviations of the logarithm of the scale: between positions, and between texts.
OF_POSITIONS, OF_TEXTS = 0.8, 0.3
# Pushes of a segment after its start, as in llama-sql.yaml.
PUSHES, SEGMENTS, POOL = 26, 100_000, 20_000


def draw(moved: float, generator: torch.Generator) -> Tensor:
    """Mean |difference| of each text of the pool, in units of the rounding at a usual position."""
    size = (POOL, TOKENS - 1)
    scale = (OF_POSITIONS * torch.randn(size, generator=generator)).exp()
    scale *= (OF_TEXTS * torch.randn(POOL, 1, generator=generator)).exp()
    rounding = math.exp(OF_POSITIONS**2 + OF_TEXTS**2)
    movement = moved * rounding * torch.randn(size, generator=generator)
    return (scale * torch.randn(size, generator=generator) + movement).abs().mean(1)


def gaps(of_texts: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Gaps of `shape`, each the mean over texts that are drawn from a pool."""
    return of_texts[torch.randint(len(of_texts), (*shape, TEXTS), generator=generator)].mean(-1)


def test_no_right_training_is_stopped() -> None:
    generator = torch.Generator().manual_seed(0)
    of_pushes = gaps(draw(0, generator), (SEGMENTS, 1 + PUSHES), generator)
    # Without an alarm in 100,000 segments the rate is below 3e-5 with a confidence of 95 %.
    assert not (of_pushes[:, 1:] > MISMATCHES * of_pushes[:, :1]).any()


def test_a_missing_push_is_found_once_the_policy_has_moved_by_four_times_the_rounding() -> None:
    generator = torch.Generator().manual_seed(0)
    start = gaps(draw(0, generator), (SEGMENTS,), generator)
    missed = gaps(draw(4, generator), (SEGMENTS,), generator)
    assert float((missed > MISMATCHES * start).float().mean()) > 0.995


STREAM = [[*range(i, i + 100)] for i in range(0, 2000, 100)]


def test_the_texts_are_cut_from_the_prompts_one_after_the_other() -> None:
    single = Canary.of(STREAM, "float32", 4096)
    assert single.texts == [[*range(128)]]
    several = Canary.of(STREAM, "bfloat16", 4096)
    assert several.texts == [[*range(i, i + 128)] for i in range(0, 1024, 128)]
    assert Canary.of(STREAM, "bfloat16", 64).texts == [[*range(i, i + 63)] for i in range(0, 504, 63)]
    # A text of one token has no log-prob.
    assert Canary.of([[*range(129)]], "bfloat16", 4096).texts == [[*range(128)]]


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 3.0), ("bfloat16", 1.5)])
def test_the_gap_is_the_largest_difference_in_float32_and_the_mean_in_bfloat16(dtype: str, expected: float) -> None:
    canary = Canary.of(STREAM, dtype, 64)
    assert canary.gap(torch.tensor([0.0, -1.0, 2.0, -3.0]), torch.zeros(4)) == expected
    assert math.isnan(canary.gap(torch.tensor([0.0, math.nan]), torch.zeros(2)))
