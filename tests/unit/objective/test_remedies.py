"""The remedies of examples/: published values, the gradients that they claim, and their names from values alone."""

import importlib.util
import sys
from itertools import combinations, product
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dphrl.objective.advantages import ScoredGroup

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


remedies, which = _module("remedies"), _module("which_remedy")


def _group(correct: tuple[bool, ...]) -> ScoredGroup:
    right = torch.tensor(correct)
    return ScoredGroup(right, right.double(), torch.ones(len(right)), right, torch.arange(len(right)), step=1)


@pytest.mark.parametrize(
    "name",
    [
        "pkpo",
        "pass_at_k_training",
        "maxrl",
        "w_reinforce",
        "f_grpo",
        "ucpo",
        "ds_grpo",
        "unlikeliness",
        "class_credit",
        "alpha_dpg",
    ],
)
def test_each_remedy_has_its_published_values_and_is_named_by_them(name: str) -> None:
    assert [*which.agreeing(f"{EXAMPLES}/remedies.py:{name}", {})] == [name]


def test_another_function_has_no_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    # PKPO with n - 1 in place of n.
    file.write_text(
        "from math import comb\n"
        "def mine(group, k):\n"
        "    n, c = len(group.correct), int(group.correct.sum())\n"
        "    return group.correct.double() * k / (n - 1) * comb(n - c, k - 1) / comb(n - 1, k - 1)\n"
    )
    assert which.agreeing(f"{file}:mine", {}) == {}
    assert which.main(f"{file}:mine") == 1


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pkpo_is_the_mean_over_all_subsets_of_what_a_response_adds(k: int) -> None:
    correct = (True, False, True, False, False)
    subsets = [*combinations(range(5), k)]
    adds = [
        sum(
            any(correct[j] for j in subset) - any(correct[j] for j in subset if j != i)
            for subset in subsets
            if i in subset
        )
        / len(subsets)
        for i in range(5)
    ]
    assert remedies.pkpo(_group(correct), k=k).tolist() == pytest.approx(adds, abs=1e-15)


def test_maxrl_is_the_harmonic_mixture_of_all_pass_at_k() -> None:
    group = _group((True, False, True, False, False, False, False, False))
    mixture = sum(remedies.pkpo(group, k=k) / k for k in range(1, 9))
    assert torch.allclose(remedies.maxrl(group), 8.0 * mixture - 1.0)


@pytest.mark.parametrize(
    ("name", "settings", "gradient"),
    [
        # d/dp of pass@k = 1 - (1 - p)^k is k (1 - p)^(k - 1): 1, 3/2, 27/16 at p = 1/4.
        ("pkpo", {"k": 1}, 1.0),
        ("pkpo", {"k": 2}, 1.5),
        ("pkpo", {"k": 3}, 27 / 16),
        # n times the first n - 1 terms of d/dp ln p = sum over j of (1 - p)^j: 4 (1 + 3/4 + 9/16).
        ("maxrl", {}, 37 / 4),
    ],
)
def test_the_expected_gradient_is_that_of_the_objective(name: str, settings: dict[str, int], gradient: float) -> None:
    p, expected = 0.25, 0.0
    for correct in product((True, False), repeat=4):
        chance, group = 1.0, _group(correct)
        for right in correct:
            chance *= p if right else 1.0 - p
        score = group.correct.double() / p - (~group.correct).double() / (1.0 - p)
        expected += chance * float(getattr(remedies, name)(group, **settings) @ score)
    assert expected == pytest.approx(gradient, abs=1e-12)
