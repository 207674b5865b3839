"""LaTeX answers as text."""

import time

import pytest

from dphrl.data.latex import last_boxed, split_at_commas


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{3}.", "3"),
        (r"\boxed{1} and then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {4}", "4"),
        (r"\boxed{1}, and \boxed{2", "1"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\\boxed{5}", "5"),
        (r"x \\ \boxed{6}", "6"),
        ("no box", None),
        (r"\boxed{", None),
    ],
)
def test_the_last_complete_box_is_the_answer(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


@pytest.mark.parametrize("text", ["{" * 20_000_000, r"\boxed{" + "{" * 20_000_000, r"\boxed{7}" + "}" * 20_000_000])
def test_braces_by_the_megabyte_are_read_in_a_moment(text: str) -> None:
    start = time.process_time()
    assert last_boxed(text) == ("7" if "7" in text else None)
    assert time.process_time() - start < 2


def test_commas_inside_of_brackets_do_not_split() -> None:
    assert split_at_commas("1, (2, 3), {4, [5, 6]}") == ["1", " (2, 3)", " {4, [5, 6]}"]
    assert split_at_commas("") == [""]
