"""Divergences and advantages from a user's file (`methods.<name>.divergence: path/to/mine.py:name`).

A divergence is a function of l = log pi_theta - log pi_ref per token on the stored responses of D_pef. Autograd gives
its gradient. An advantage is a function of the rewards of one group. Both are checked at the start of a run, and again
before each training.
"""

# ruff: noqa: E741 (l is the paper's letter)

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig
from dphrl.config.errors import ConfigError, Problem
from dphrl.objective.divergences import Divergence

Advantage = Callable[[Tensor], Tensor]

_LARGEST = 1e4
_STEP, _TOLERANCE = 1e-5, 1e-5


def divergence_of(place: str, l_cap: float) -> Divergence:
    """The divergence of a user's function, continued linearly beyond `l_cap` like every other.

    Args:
        place: FILE.py:NAME. The function takes log-ratios, float64 of any shape, and returns f of each element.
        l_cap: log-ratio from which the divergence is linear.

    Raises:
        ValueError: no such file or function; or f(0) is not 0, f or its gradient is not finite for |l| <= 1e4, f of an
            element depends on the others, or autograd's gradient is not that of finite differences.
    """
    f = _function(place)

    def g(l: Tensor) -> Tensor:
        with torch.enable_grad():
            at = l.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(f(at).sum(), at)
        return gradient

    def value(l: Tensor) -> Tensor:
        with torch.no_grad():
            return f(l.detach())

    made = Divergence(place.rpartition(":")[2], value, g, l_cap)
    _check(place, f, made)
    return made


def advantage_of(place: str) -> Advantage:
    """The advantages of a user's function.

    Args:
        place: FILE.py:NAME. The function takes rewards, float64 (groups, responses per group), and returns the
            advantages, of the same shape.

    Raises:
        ValueError: no such file or function; or its advantages have another shape, are not finite, differ between
            two calls with the same rewards, or depend on other groups, which are spread over ranks.
    """
    function = _function(place)

    def checked(rewards: Tensor) -> Tensor:
        advantages = function(rewards.clone())
        if not isinstance(advantages, Tensor) or advantages.shape != rewards.shape:
            shape = tuple(advantages.shape) if isinstance(advantages, Tensor) else type(advantages).__name__
            raise ValueError(f"{place}: expected advantages of the shape {tuple(rewards.shape)}, found {shape}")
        if not torch.isfinite(advantages).all():
            raise ValueError(f"{place}: an advantage is not finite for the rewards {rewards.tolist()}")
        return advantages.to(rewards.dtype)

    groups = [[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.2, 0.8, -1.0, 0.0]]
    rewards = torch.tensor(groups, dtype=torch.float64)
    together = checked(rewards)
    if not torch.equal(together, checked(rewards)):
        raise ValueError(f"{place}: two calls with the same rewards give other advantages; expected a function of them")
    if not torch.allclose(together, torch.cat([checked(group[None]) for group in rewards]), rtol=1e-9, atol=1e-12):
        raise ValueError(f"{place}: advantages of a group depend on other groups; expected a function of one group")
    return checked


def check_functions(methods: Mapping[str, MethodConfig]) -> None:
    """Raise `ConfigError` with each function of the user that a training would refuse."""
    problems = []
    for name, method in methods.items():
        for key, place in method.functions.items():
            try:
                divergence_of(place, method.l_cap) if key == "divergence" else advantage_of(place)
            except Exception as error:  # whatever the user's file raises
                said = str(error).removeprefix(f"{place}: ") if isinstance(error, ValueError) else repr(error)
                problems.append(Problem(f"methods.{name}.{key}", place, said))
    if problems:
        raise ConfigError(problems)


def _function(place: str) -> Callable[[Tensor], Tensor]:
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"{place}: there is no file {path}")
    spec = importlib.util.spec_from_file_location("dphrl_plug", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{place}: {path} has no function {name}")
    return function


def _check(place: str, f: Callable[[Tensor], Tensor], made: Divergence) -> None:
    grid = torch.cat([torch.tensor([-_LARGEST, -100.0, -20.0]), torch.linspace(-5, 5, 41), torch.tensor([_LARGEST])])
    grid = grid.double()
    if (shape := f(grid.clamp(max=made.l_cap)).shape) != grid.shape:
        raise ValueError(f"{place}: expected values of {len(grid)} log-ratios, found the shape {tuple(shape)}")
    values, gradients = made._value(grid), made._gradient(grid)
    for what, found in (("value", values), ("gradient", gradients)):
        if not torch.isfinite(found).all():
            first = grid[~torch.isfinite(found)][0].item()
            raise ValueError(
                f"{place}: its {what} is not finite at log-ratio {first:g}; expected finite ones for |log-ratio| <= "
                f"{_LARGEST:g} (beyond l_cap it is linear)"
            )
    zero = made._value(torch.zeros(1, dtype=torch.float64)).item()
    if abs(zero) > 1e-9:
        raise ValueError(f"{place}: its value at log-ratio 0 is {zero:g}; expected 0, where policy and reference agree")
    alone = torch.stack([made._value(l.reshape(1))[0] for l in grid])
    if not torch.allclose(values, alone, rtol=1e-9, atol=1e-12):
        raise ValueError(f"{place}: its value of a token depends on other tokens; expected a function of one log-ratio")
    inside = grid[(grid >= -5) & (grid <= min(5.0, made.l_cap or 5.0) - _STEP)]
    slopes = (made._value(inside + _STEP) - made._value(inside - _STEP)) / (2 * _STEP)
    wrong = ~torch.isclose(slopes, made._gradient(inside), rtol=_TOLERANCE * 100, atol=_TOLERANCE)
    if wrong.any():
        at, slope = inside[wrong][:1], slopes[wrong][0].item()
        raise ValueError(
            f"{place}: its gradient at log-ratio {at.item():g} is {made._gradient(at).item():g} by autograd and "
            f"{slope:g} by finite differences; is a part of it detached?"
        )
