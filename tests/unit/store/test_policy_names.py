"""Names of policies: printed and parsed."""

from string import ascii_letters, digits

from hypothesis import example, given
from hypothesis import strategies as st

from dphrl.store.policy_names import PolicyName


@given(st.text(ascii_letters + digits + "_-", max_size=9), st.integers(0, 10**6), st.integers(1, 10**6))
@example("-s1", 0, 2)
def test_parsing_undoes_printing(letters: str, seed: int, step: int) -> None:
    method = f"m{letters}"
    name = PolicyName(method, seed, step)
    assert str(name) == f"{name.training}/step{step}" == f"{method}-s{seed}/step{step}"
    assert PolicyName.parse(str(name)) == name
    assert PolicyName.parse(method) == PolicyName(method)
    assert str(PolicyName(method)) == method
