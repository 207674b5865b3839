"""Divergences and advantages from a user's file: used as they are, or refused in one sentence."""

from pathlib import Path

import pytest
import torch

from dphrl.config.blocks.training import MethodConfig
from dphrl.config.errors import ConfigError
from dphrl.objective.advantages import ScoredGroup
from dphrl.objective.divergences import divergence
from dphrl.objective.user_functions import advantage_of, check_functions, divergence_of

GOOD = """
import torch
from torch import Tensor

def hellinger(l: Tensor) -> Tensor:
    return torch.expm1(l / 2).square()

def forward_kl(l: Tensor) -> Tensor:
    return torch.expm1(l) - l

def detached(l: Tensor) -> Tensor:
    return torch.expm1(l).detach() - l

def shifted(l: Tensor) -> Tensor:
    return l.square() + 1

def infinite(l: Tensor) -> Tensor:
    return torch.exp(-l) - 1

def mixed(l: Tensor) -> Tensor:
    return l.square() / (1 + l.abs().mean()) if l.numel() > 1 else l.square()

def summed(l: Tensor) -> Tensor:
    return l.square().sum()

def centred(group, scale=1.0):
    return scale * (group.rewards - group.rewards.mean())

def column(group):
    return group.rewards[:, None]

def unbounded(group):
    return group.rewards / group.rewards.std()

def random(group):
    return torch.rand(len(group.rewards))

def punishing(group):
    return group.rewards - 1.0

constant = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def test_a_plug_is_the_built_in_divergence_of_the_same_function(file: Path) -> None:
    ours, built_in = divergence_of(f"{file}:forward_kl", 3.0), divergence("forward_kl")
    log_ratio = torch.tensor([-1e4, -30.0, -2.0, -1e-3, 0.0, 1e-3, 2.0, 3.0, 4.0, 1e4], dtype=torch.float64)
    assert torch.allclose(ours.value(log_ratio), built_in.value(log_ratio), rtol=1e-12)
    assert torch.allclose(ours.gradient(log_ratio), built_in.gradient(log_ratio), rtol=1e-12, atol=1e-15)
    moved = log_ratio.clone().requires_grad_()
    ours.value(moved).sum().backward()
    assert moved.grad is not None
    assert torch.equal(moved.grad, ours.gradient(log_ratio))


def test_a_gradient_comes_through_where_none_is_computed(file: Path) -> None:
    with torch.no_grad():
        gradient = divergence_of(f"{file}:hellinger", 3.0).gradient(torch.tensor([1.0]))
    assert gradient.item() == pytest.approx(torch.tensor(0.5).exp().item() * torch.expm1(torch.tensor(0.5)).item())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("detached", "gradient at log-ratio -5 is -1 by autograd and -0.99.* by finite differences; is a part of it"),
        ("shifted", "its value at log-ratio 0 is 1; expected 0"),
        ("infinite", "its value is not finite at log-ratio -10000"),
        ("mixed", "its value of a token depends on other tokens"),
        ("summed", "expected values of 45 log-ratios"),
        ("missing", "has no function missing"),
        ("constant", "has no function constant"),
    ],
)
def test_a_divergence_that_cannot_be_trained_with_is_refused(file: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        divergence_of(f"{file}:{name}", 3.0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*other\.py"):
        divergence_of(f"{tmp_path}/other.py:f", 3.0)


def test_advantages_are_the_function_of_the_group_with_the_settings_of_the_method(file: Path) -> None:
    method = MethodConfig(advantage=f"{file}:centred", advantage_settings={"scale": 2})
    right = torch.tensor([True, False, False, False])
    group = ScoredGroup(right, right.double(), torch.ones(4), right, torch.arange(4), step=1)
    assert advantage_of(method, 4)(group).tolist() == [1.5, -0.5, -0.5, -0.5]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("column", r"expected advantages of the shape \(4,\), found \(4, 1\)"),
        ("unbounded", "an advantage is not finite"),
        ("random", "two calls with one group give other advantages"),
        ("punishing", "set dynamic_sampling_rounds to 0"),
    ],
)
def test_advantages_that_cannot_be_trained_with_are_refused(file: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        advantage_of(MethodConfig(advantage=f"{file}:{name}", dynamic_sampling_rounds=1), 4)


def test_every_function_that_a_training_would_refuse_is_named_with_its_key(file: Path) -> None:
    methods = {
        "good": MethodConfig(divergence=f"{file}:hellinger", advantage=f"{file}:centred"),
        "detached": MethodConfig(divergence=f"{file}:detached"),
        "random": MethodConfig(advantage=f"{file}:random"),
        "built_in": MethodConfig(divergence="js"),
    }
    with pytest.raises(ConfigError) as raised:
        check_functions(methods, 4)
    assert [problem.path for problem in raised.value.problems] == [
        "methods.detached.divergence",
        "methods.random.advantage",
    ]


def test_an_error_of_the_file_is_shown(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    with pytest.raises(ConfigError, match="No module named 'no_such_module'"):
        check_functions({"mine": MethodConfig(advantage=f"{tmp_path}/broken.py:f")}, 4)
