"""From rollouts and verdicts to one row per prompt."""

import polars as pl
import pytest

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.blocks.evaluate import StyleRule
from dphrl.evaluation.per_prompt import evaluate

RULES = [
    StyleRule(name="nested", prefix="SELECT * FROM ("),
    StyleRule(name="plain", prefix="SELECT "),
    StyleRule(name="lower", prefix="select "),
]


def rows(samples):
    """Rollouts and verdicts from (prompt, index, text, verdict, answer class, program class)."""
    names = ["prompt_id", "sample_index", "text", "verdict", "answer_class", "program_class"]
    frame = pl.DataFrame(samples, schema=dict.fromkeys(names, pl.String) | {"sample_index": pl.Int32}, orient="row")
    frame = frame.with_columns(correct=pl.col("verdict") == "correct")
    return frame.select("prompt_id", "sample_index", "text"), frame.drop("text")


def declared(frame):
    """Whether the columns are those of the table that the stage writes, and only nullable ones have nulls."""
    schema = SCHEMAS["evaluation"]
    nulls = {name for name in frame.columns if frame[name].null_count()}
    return dict(frame.schema).items() <= schema.columns.items() and nulls <= schema.nullable


def one_prompt(name="a", verdict="correct"):
    return [
        (name, 1, " SELECT * FROM (t)", "wrong", "x", "p3"),
        (name, -1, "SELECT g", verdict, "g", "pg"),
        (name, 0, "SELECT a", "correct", "x", "p1"),
        (name, 3, "Select a", "parse_error", None, None),
        (name, 2, "select a", "correct", "x", "p2"),
    ]


def test_counts_of_one_prompt():
    frame = evaluate(*rows(one_prompt()), RULES)
    assert frame.to_dicts() == [
        {
            "prompt_id": "a",
            "n": 4,
            "c": 2,
            "correct": [True, False, True, False],
            "greedy_correct": True,
            "styles": ["plain", "nested", "lower", "other"],
            "distinct_styles": 4,
            "distinct_styles_correct": 2,
            "distinct_answers": 1,
            "distinct_programs": 2,
        }
    ]
    assert declared(frame)


def test_row_order_of_the_input_does_not_matter():
    samples = one_prompt("b", "wrong") + one_prompt("a")
    assert evaluate(*rows(samples), RULES).equals(evaluate(*rows(samples[::-1]), RULES))


def test_without_rules_no_style_is_told():
    frame = evaluate(*rows(one_prompt()), [])
    assert frame.select("styles", "distinct_styles", "distinct_styles_correct").row(0) == ([], 0, 0)
    assert declared(frame)


def test_unparsed_programs_are_no_class_and_wrong_ones_do_not_count():
    samples = [
        ("a", -1, "", "wrong", None, None),
        ("a", 0, "x", "correct", "x", None),
        ("a", 1, "y", "wrong", "y", "p"),
    ]
    assert evaluate(*rows(samples), []).select("distinct_answers", "distinct_programs").row(0) == (1, 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (one_prompt("b")[:-1], "'b' has samples .0, 1, 3."),
        ([sample for sample in one_prompt("b") if sample[1] != 3], "'b' has samples .0, 1, 2., expected 0..3"),
        ([sample for sample in one_prompt("b") if sample[1] != -1], "'b' has no greedy"),
        ([*one_prompt("b"), ("b", 0, "SELECT a", "correct", "x", "p1")], "'b', sample 0 occurs more than once"),
        (one_prompt("b", "infrastructure_error"), "'b', sample -1 has one of the verdicts"),
        (one_prompt("b", "gold_error"), "'b', sample -1 has one of the verdicts"),
    ],
)
def test_broken_samples_are_named(broken, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*rows(one_prompt() + broken), RULES)


def test_every_rollout_has_its_verdict():
    rollouts, verdicts = rows(one_prompt())
    with pytest.raises(ValueError, match="'a', sample 3 has no verdict"):
        evaluate(rollouts, verdicts.filter(pl.col("sample_index") != 3), RULES)
    with pytest.raises(ValueError, match="'a', sample 3 has a verdict but no rollout"):
        evaluate(rollouts.filter(pl.col("sample_index") != 3), verdicts, RULES)


def test_a_dataset_without_greedy_responses_has_no_greedy_figure():
    frame = evaluate(*rows([sample for sample in one_prompt() if sample[1] >= 0]), RULES)
    assert frame["greedy_correct"].to_list() == [None]
    assert declared(frame)


def test_no_rollouts_is_an_error():
    with pytest.raises(ValueError, match="no prompt"):
        evaluate(*rows([]), RULES)
