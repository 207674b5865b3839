"""From rollouts and verdicts to one row per prompt: counts, classes, and the same in parts as in one piece."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.evaluation.per_prompt import classes_shown, evaluate, evaluate_parts, skeleton
from dphrl.store import parquet as tables
from dphrl.store.catalogue import SCHEMAS

RULES = [
    StyleRule(name="nested", prefix="SELECT * FROM ("),
    StyleRule(name="plain", prefix="SELECT "),
    StyleRule(name="lower", prefix="select "),
]
CLASSES = ("answers", "programs", "skeletons")
PLAIN = [StyleRule(name="plain", prefix="SELECT")]
PROMPTS = 9
# A prompt whose gold is not kept, with classes that the others do not have.
DROPPED = "p4"


def rows(samples):
    """Rollouts and verdicts from (prompt, index, text, verdict, answer class, program class)."""
    names = ["prompt_id", "sample_index", "text", "verdict", "answer_class", "program_class"]
    frame = pl.DataFrame(samples, schema=dict.fromkeys(names, pl.String) | {"sample_index": pl.Int32}, orient="row")
    frame = frame.with_columns(correct=pl.col("verdict") == "correct", reads_table=pl.lit(None, pl.Boolean))
    frame = frame.with_columns(extracted=pl.lit(None, pl.String))
    return frame.select("prompt_id", "sample_index", "text"), frame.drop("text")


def evaluated(rollouts, verdicts, styles):
    """The evaluation of a whole dataset."""
    return evaluate(rollouts, verdicts, styles, classes_shown([verdicts]))


def wrong_rows(samples):
    """Rollouts and wrong verdicts from (prompt, index, text, answer class, program class)."""
    return rows([(prompt, index, text, "wrong", *classes) for prompt, index, text, *classes in samples])


def classes(rollouts, verdicts):
    """The columns of an evaluation that hold classes."""
    return evaluated(rollouts, verdicts, []).select("prompt_id", *CLASSES)


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
    frame = evaluated(*rows(one_prompt()), RULES)
    assert frame.drop(CLASSES).to_dicts() == [
        {
            "prompt_id": "a",
            "n": 4,
            "c": 2,
            "correct": [True, False, True, False],
            "greedy_correct": True,
            "styles": ["plain", "nested", "lower", "other"],
            "distinct_styles": 4,
            "constants": None,
        }
    ]
    assert declared(frame)


def test_row_order_of_the_input_does_not_matter():
    samples = one_prompt("b", "wrong") + one_prompt("a")
    assert evaluated(*rows(samples), RULES).equals(evaluated(*rows(samples[::-1]), RULES))


def test_without_rules_there_are_no_styles():
    frame = evaluated(*rows(one_prompt()), [])
    assert frame.select("styles", "distinct_styles").row(0) == ([], 0)
    assert declared(frame)


def test_right_answers_that_read_no_table_are_counted():
    read = {"a": [False, True, False, False], "b": [True, None, True, False], "c": [None] * 4}
    verdict = {"a": ["correct"] * 3 + ["wrong"], "b": ["correct", "timeout", "wrong", "wrong"], "c": ["no_answer"] * 4}
    rollouts, verdicts = rows([(name, i, "", verdict[name][i], "x", "p") for name in read for i in range(4)])
    reads = pl.Series([one for values in read.values() for one in values])
    frame = evaluated(rollouts, verdicts.with_columns(reads_table=reads), RULES)
    # The prompt without right answers says nothing.
    assert frame.select("prompt_id", "c", "constants").rows() == [("a", 3, 2), ("b", 1, 0), ("c", 0, None)]
    assert declared(frame)


def test_a_verdict_that_judges_nothing_is_named():
    with pytest.raises(ValueError, match="'b', sample -1 has one of the verdicts"):
        evaluated(*rows(one_prompt() + one_prompt("b", "infrastructure_error")), RULES)


def test_a_dataset_without_greedy_responses_has_no_greedy_figure():
    frame = evaluated(*rows([sample for sample in one_prompt() if sample[1] >= 0]), RULES)
    assert frame["greedy_correct"].to_list() == [None]
    assert declared(frame)


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
    found = classes(*wrong_rows(samples))
    assert found.to_dicts() == [
        {"prompt_id": "a", "answers": [0, None, 0, 3], "programs": [0, None, 2, 2], "skeletons": []},
        {"prompt_id": "b", "answers": [0, 1, 1, 1], "programs": [0, None, None, None], "skeletons": []},
    ]
    lists = dict.fromkeys(("answers", "programs", "skeletons"), pl.List(pl.Int32))
    assert dict(found.schema) == {"prompt_id": pl.String(), **lists}


def test_without_programs_solutions_are_distinguished_by_their_skeletons():
    texts = ["3 + 4 = 7", "So 5 + 2 = 7.", "it is 7", "2 * 3 + 1 = 7"]
    found = classes(*wrong_rows([("a", number, text, None, None) for number, text in enumerate(texts)]))
    assert found.row(0) == ("a", [], [], [0, 0, 2, 3])


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


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PART", 4)


def _tables(programs: bool = True, greedy: bool = True) -> dict[str, pl.DataFrame]:
    """Rollouts, verdicts, gold and prompts of a dataset, five samples for each prompt."""
    rows = [
        {
            "prompt_id": f"p{prompt}",
            "sample_index": sample,
            "text": [" SELECT 1", "3 + 4 = 7", "2 * 3 = 6"][(prompt + sample) % 3],
            "verdict": "correct" if (prompt * sample) % 2 else "wrong",
            "correct": bool((prompt * sample) % 2),
            "answer_class": None if sample == 3 else f"a{sample % 2}",
            "program_class": f"c{sample % 3}" if (programs and prompt in (4, 5)) or prompt == 4 else None,
            "reads_table": sample != 1 if programs else None,
            "kept": f"p{prompt}" != DROPPED,
            "ground_truth": f'{{"db_id": "d{prompt % 2}"}}',
            "task": "sql" if programs else "math",
            "level": str(prompt % 3),
        }
        for prompt in range(PROMPTS)
        for sample in range(-1 if greedy else 0, 5)
    ]
    frame = pl.DataFrame(rows, schema_overrides={"reads_table": pl.Boolean}, infer_schema_length=None)
    of_prompts = frame.unique("prompt_id", maintain_order=True)
    judged = ("verdict", "correct", "answer_class", "program_class", "reads_table")
    return {
        "rollouts": frame.select("prompt_id", "sample_index", "text"),
        "verdicts": frame.select("prompt_id", "sample_index", *judged, extracted=pl.lit(None, pl.String)),
        "gold": of_prompts.select("prompt_id", "kept", "ground_truth"),
        "prompts": of_prompts.select("prompt_id", "task", "level"),
    }


def _whole(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    gold = tables["gold"].filter("kept")
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    marks = gold.select("prompt_id", cluster=database).join(
        tables["prompts"].select("prompt_id", "level"), on="prompt_id", how="left"
    )
    rollouts, verdicts = (tables[name].join(marks, on="prompt_id", how="semi") for name in ("rollouts", "verdicts"))
    return evaluated(rollouts, verdicts, PLAIN).join(marks, on="prompt_id", how="left", maintain_order="left")


def _lazy(tables: dict[str, pl.DataFrame]) -> list[pl.LazyFrame]:
    return [frame.lazy() for frame in tables.values()]


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("programs", [True, False])
@pytest.mark.parametrize("greedy", [True, False])
def test_the_parts_are_those_of_the_whole_table(programs: bool, greedy: bool) -> None:
    tables = _tables(programs, greedy)
    parts, whole = list(evaluate_parts(*_lazy(tables), PLAIN)), _whole(tables)
    assert len(parts) > 3
    assert_frame_equal(pl.concat(parts), whole)
    assert whole.height == PROMPTS - 1
    assert whole["programs"].list.len().to_list() == [5 * programs] * whole.height
    assert whole["skeletons"].list.len().to_list() == [5 * (not programs)] * whole.height


def test_texts_of_a_custom_task_have_no_skeletons() -> None:
    tables = _tables(programs=False, greedy=False)
    prompts = tables["prompts"].with_columns(task=pl.lit("one_of"))
    found = pl.concat(evaluate_parts(*_lazy(tables | {"prompts": prompts}), PLAIN))
    assert found["skeletons"].list.len().sum() == 0
    assert found["answers"].list.len().to_list() == [5] * found.height


def test_a_dataset_without_a_prompt_to_evaluate_is_refused() -> None:
    tables = _tables()
    none = tables["gold"].with_columns(kept=False)
    with pytest.raises(ValueError, match="no prompt to evaluate"):
        list(evaluate_parts(*_lazy(tables | {"gold": none}), PLAIN))


@pytest.mark.usefixtures("_small_parts")
def test_verdicts_on_other_samples_are_refused_in_a_later_part() -> None:
    tables = _tables()
    last = pl.col("prompt_id") == f"p{PROMPTS - 1}"
    for name in ("rollouts", "verdicts"):
        with pytest.raises(ValueError, match="of other samples"):
            list(evaluate_parts(*_lazy(tables | {name: tables[name].filter(~last)}), PLAIN))
