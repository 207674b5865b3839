"""Divergences and advantages from a user's file (`methods.<name>.divergence: path/to/mine.py:name`).

A divergence is a function of l = log pi_theta - log pi_ref per token on stored responses. Autograd gives
its gradient. An advantage is a function of one group of rollouts. Both are checked at the start of a run, and again
before each training.
"""

# ruff: noqa: E741 (l is the paper's letter)

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig
from dphrl.config.errors import ConfigError, Problem
from dphrl.objective.advantages import ScoredGroup
from dphrl.objective.divergences import Divergence

Advantage = Callable[[ScoredGroup], Tensor]

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
    f = user_function(place)

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


def advantage_of(method: MethodConfig, n: int) -> Advantage:
    """The advantages (n,) of a group of n rollouts by the user's function of a method, with its settings.

    Raises:
        ValueError: no such file or function; or its advantages have another shape, are not finite, or differ between
            two calls with the same group; or it trains on groups that dynamic sampling replaces.
    """
    place = str(method.advantage)
    function = partial(user_function(place), **method.advantage_settings)

    def checked(group: ScoredGroup) -> Tensor:
        advantages = function(group)
        if not isinstance(advantages, Tensor) or advantages.shape != group.rewards.shape:
            shape = tuple(advantages.shape) if isinstance(advantages, Tensor) else type(advantages).__name__
            raise ValueError(f"{place}: expected advantages of the shape {tuple(group.rewards.shape)}, found {shape}")
        if not torch.isfinite(advantages).all():
            raise ValueError(f"{place}: an advantage is not finite for {group}")
        return advantages.to(group.rewards.dtype)

    for group in _groups(n, method.advantage_needs):
        advantages = checked(group)
        if not torch.equal(advantages, checked(group)):
            raise ValueError(f"{place}: two calls with one group give other advantages; expected a function of it")
        alike = bool(group.correct.all() or not group.correct.any())
        if method.dynamic_sampling_rounds and alike and advantages.any():
            raise ValueError(
                f"{place}: it trains on groups that are all right or all wrong, which dynamic sampling replaces; set "
                "dynamic_sampling_rounds to 0"
            )
    return checked


def _groups(n: int, needs: Sequence[str]) -> Iterator[ScoredGroup]:
    """Groups for the check: none, one, all but one and all right; ties; the base never, sometimes and always right."""
    place = torch.arange(n)
    for right, of_base in ((0, 0), (0, 8), (1, 0), (n // 2, 4), (n - 1, 8), (n, 8)):
        logprobs = -((place // 2).double() ** 2) - 1.0
        yield ScoredGroup(
            place < right,
            (place < right).double(),
            lengths=place // 2 + 1,
            finished=place < n - 1,
            answers=place // 2 - 1,
            step=1,
            programs=place // 2 - 1 if "programs" in needs else None,
            base_right=of_base if "base" in needs else None,
            base_n=8 if "base" in needs else None,
            logprobs=logprobs if "logprobs" in needs else None,
            reference=logprobs.flip(0) if "reference" in needs else None,
        )


def check_functions(methods: Mapping[str, MethodConfig], n: int) -> None:
    """Raise `ConfigError` with each function of the user that a training with groups of n rollouts would refuse."""
    problems = []
    for name, method in methods.items():
        for key, place in method.functions.items():
            try:
                divergence_of(place, method.l_cap) if key == "divergence" else advantage_of(method, n)
            except Exception as error:  # whatever the user's file raises
                said = str(error).removeprefix(f"{place}: ") if isinstance(error, ValueError) else repr(error)
                problems.append(Problem(f"methods.{name}.{key}", place, said))
    if problems:
        raise ConfigError(problems)


def user_function(place: str) -> Callable[..., Tensor]:
    """The function at FILE.py:NAME; ValueError where there is none."""
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
    for what, tensor in (("value", values), ("gradient", gradients)):
        if not torch.isfinite(tensor).all():
            first = grid[~torch.isfinite(tensor)][0].item()
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
