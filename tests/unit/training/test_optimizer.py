"""AdamW that clips and skips, for the one case where DeepSpeed does neither as the others do."""

import math

import pytest
import torch
from torch import Tensor, nn

from dphrl.training.optimizer import ClippedAdamW


def _pair(clip: float) -> tuple[list[nn.Parameter], ClippedAdamW]:
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(3))]
    return parameters, ClippedAdamW(parameters, lr=0.1, betas=(0.0, 0.999), weight_decay=0.0, clip_grad_norm=clip)


def _step(parameters: list[nn.Parameter], optimizer: ClippedAdamW, *gradients: Tensor) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    optimizer.step()


def test_the_gradient_is_scaled_to_the_norm_and_the_norm_is_that_before() -> None:
    parameters, optimizer = _pair(0.5)
    _step(parameters, optimizer, torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0, 0.0]))
    assert optimizer._global_grad_norm == pytest.approx(5.0)
    assert not optimizer.overflow
    torch.testing.assert_close(optimizer.state[parameters[0]]["exp_avg"], torch.tensor([0.3, 0.0]))
    torch.testing.assert_close(optimizer.state[parameters[1]]["exp_avg"], torch.tensor([0.0, 0.4, 0.0]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_left_out(bad: float) -> None:
    parameters, optimizer = _pair(1.0)
    _step(parameters, optimizer, torch.tensor([1.0, bad]), torch.ones(3))
    assert optimizer.overflow
    assert optimizer._global_grad_norm == math.inf
    assert torch.equal(parameters[0], torch.ones(2))
    assert not optimizer.state
    _step(parameters, optimizer, torch.ones(2), torch.ones(3))
    assert not optimizer.overflow
    assert parameters[1].max() < 0
