"""Which samples of a prompt are alike, and how varied they are."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.evaluation.classes import class_counts, classes, entropy, skeleton


def rows(samples):
    """Rollouts and verdicts from (prompt, index, text, answer class, program class)."""
    names = ["prompt_id", "sample_index", "text", "answer_class", "program_class"]
    frame = pl.DataFrame(samples, schema=dict.fromkeys(names, pl.String) | {"sample_index": pl.Int32}, orient="row")
    judged = frame.drop("text").with_columns(verdict=pl.lit("wrong"), correct=pl.lit(False))
    return frame.select("prompt_id", "sample_index", "text"), judged


def test_samples_are_numbered_by_the_first_like_them():
    samples = [
        ("b", 0, "", "x", "p"),
        ("a", -1, "", "y", "p"),
        ("a", 2, "", "x", "p"),
        ("a", 1, "", None, None),
        ("a", 0, "", "x", "q"),
        ("a", 3, "", "y", "p"),
        *(("b", index, "", "y", None) for index in (-1, 1, 2, 3)),
    ]
    found = classes(*rows(samples))
    assert found.to_dicts() == [
        {"prompt_id": "a", "answers": [0, None, 0, 3], "programs": [0, None, 2, 2], "skeletons": []},
        {"prompt_id": "b", "answers": [0, 1, 1, 1], "programs": [0, None, None, None], "skeletons": []},
    ]
    lists = dict.fromkeys(("answers", "programs", "skeletons"), pl.List(pl.Int32))
    assert dict(found.schema) == {"prompt_id": pl.String(), **lists}


def test_without_programs_solutions_are_told_apart_by_their_skeletons():
    texts = ["3 + 4 = 7", "So 5 + 2 = 7.", "it is 7", "2 * 3 + 1 = 7"]
    found = classes(*rows([("a", number, text, None, None) for number, text in enumerate(texts)]))
    assert found.row(0) == ("a", [], [], [0, 0, 2, 3])


def test_broken_samples_are_refused_as_in_evaluate():
    with pytest.raises(ValueError, match="'b' has samples"):
        classes(*rows([("a", 0, "", "x", "p"), ("b", 1, "", "x", "p")]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("First, 3 + 4 = 7. So\nthe total is 7", "#+#=#"),
        ("- The well-known sum and/or 3\n1. $\\frac{3}{4} \\times 2 = 1.5$", "#/#*#=#"),
        ("3 \u00d7 4 = 12\n\n7 \u2212 2 = 5", "#*#=#\n#-#=#"),
        ("**Step 1:** 1,234.5 - 3 = x", "#-#="),
        ("x^2 + \\sqrt{2} = 0", "^#+\u221a#=#"),
        ("the answer is \\boxed{5}", ""),
        ("a - b", ""),
        ("", ""),
    ],
)
def test_known_skeletons(text, expected):
    assert pl.select(skeleton(pl.lit(text))).item() == expected


@given(st.lists(st.lists(st.integers(-1, 4), min_size=5, max_size=5), min_size=1, max_size=6))
def test_counts_and_entropy_are_those_of_the_definition(codes):
    counts = class_counts(np.array(codes))
    for row, found, bits in zip(codes, counts, entropy(counts), strict=True):
        given_codes = [code for code in row if code >= 0]
        assert found.tolist() == [given_codes.count(code) for code in range(counts.shape[1])]
        shares = [count / len(given_codes) for count in found if count]
        assert bits == pytest.approx(-sum(share * np.log2(share) for share in shares))
        assert 0 <= bits <= np.log2(max(len(set(given_codes)), 1)) + 1e-12


def test_counts_of_some_samples():
    among = np.array([[True, False, True]])
    assert class_counts(np.array([[0, 0, 2]]), among).tolist() == [[1, 0, 1]]
