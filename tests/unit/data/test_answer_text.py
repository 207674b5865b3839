"""The answer in a text: behind a thought, in a box, between commas."""

import time

import pytest

from dphrl.config.scorers import THOUGHTS
from dphrl.data.answer_text import answer_part, last_boxed, split_at_commas


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{3}.", "3"),
        (r"\boxed{1} and then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {4}", "4"),
        (r"\boxed{1}, and \boxed{2", "1"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"a stray { and \boxed{4} and }", "4"),
        (r"\boxed{}", ""),
        (r"\boxed 8", None),
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


@pytest.mark.parametrize(
    ("response", "opened", "answer"),
    [
        ("7", False, "7"),
        ("<think>6</think>7", False, "7"),
        ("6</think>7", True, "7"),
        # A file of samples does not say that the prompt opened the thought.
        ("6</think>7", False, "7"),
        ("<think>5</think>6</think>7", False, "7"),
        ("<|begin_of_thought|>6<|end_of_thought|>7", False, "7"),
        ("I use the <think> tag: 7", False, "I use the <think> tag: 7"),
        ("<think>6", False, None),
        (" \n<thinking>6", False, None),
        ("<think>5</think>\n<think>6", False, None),
        ("6", True, None),
    ],
)
def test_the_answer_follows_the_last_end_of_a_thought(response: str, opened: bool, answer: str | None) -> None:
    assert answer_part(response, THOUGHTS, opened) == answer


def test_without_tags_in_the_configuration_the_response_is_the_answer() -> None:
    assert answer_part("<think>6", {}, False) == "<think>6"
