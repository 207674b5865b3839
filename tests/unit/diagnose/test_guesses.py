"""Right answers by guessing, against enumeration."""

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

from dphrl.diagnose.guesses import guessed


def test_guesses_by_enumeration():
    """pass@2 with the answer of each other question, over all pairs of samples."""
    answers = {"a": ["A", "B", "C"], "b": ["B", "B", "D"], "c": ["C", "A", None]}
    golds = {"a": "A", "b": "B", "c": "C"}
    rows = [(key, text, text == golds[key]) for key, texts in answers.items() for text in texts]
    frame = pl.DataFrame(rows, {"prompt_id": pl.String, "answer_class": pl.String, "correct": pl.Boolean}, orient="row")
    hits = [
        np.mean([golds[other] in draw for draw in combinations(answers[key], 2)])
        for key, other in product(answers, repeat=2)
        if key != other
    ]
    assert guessed({"base": frame}, 2) == {"base": pytest.approx(np.mean(hits))}
    same = frame.with_columns(answer_class=pl.when("correct").then(pl.lit("A")).otherwise("answer_class"))
    assert guessed({"base": same}, 2) is None
