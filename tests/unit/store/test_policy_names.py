"""Names of policies: printed and parsed."""

from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.store.policy_names import BASE, PolicyName


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("base", BASE),
        ("gpt", PolicyName("gpt")),
        ("grpo-s1/step40", PolicyName("grpo", 1, 40)),
        ("a-s1-s0/step2", PolicyName("a-s1", 0, 2)),
    ],
)
def test_a_name_is_printed_and_parsed(text: str, name: PolicyName) -> None:
    assert str(name) == text
    assert PolicyName.parse(text) == name


@given(st.text(ascii_letters + digits + "_", max_size=9), st.integers(0, 10**6), st.integers(1, 10**6))
def test_parsing_undoes_printing(letters: str, seed: int, step: int) -> None:
    method = f"m{letters}"
    name = PolicyName(method, seed, step)
    assert PolicyName.parse(str(name)) == name
    assert PolicyName.parse(method) == PolicyName(method)
    assert name.training == f"{method}-s{seed}"
