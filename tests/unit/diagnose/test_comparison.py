"""A made example whose every number is known by enumeration, and what is joined, left out and named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_samples import drawn_file, sample_file
from written_samples import lines

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.data.records import SourceError
from dphrl.diagnose.comparison import diagnose
from dphrl.diagnose.joined import join, policy_names, shown_as
from dphrl.diagnose.rescored import read_golds

# "+" is right; letters are ways.
BASE = {"a": ["+x", "+y", "+z", "-"], "b": ["+x", "-u", "-v", "-w"], "c": ["-u", "-u", "-v", ""], "d": ["+x"] * 4}
TUNED = {"a": ["+x", "+x", "+x", "+x"], "b": ["-u"] * 4, "c": ["+y", "-u", "-u", "-u"], "d": ["+x", "+y", "+x", "+x"]}


def joined(*files):
    return join(dict(zip(policy_names(files), files, strict=True)))


@pytest.fixture(scope="module")
def found():
    return diagnose([sample_file("one", BASE), sample_file("two", TUNED)])


def test_the_diagnosis_of_the_example(found):
    """pass@2 differs by 0, -1/2, 1/2, 0: standard error sqrt(1/24), t(3) 3.18 and 2.35.

    With -1 and +1 in addition the standard error is sqrt(1/12), t(5) 2.015.
    """
    diagnosis = found.models["two"].diagnosis
    coverage = diagnosis.coverage
    assert (diagnosis.word, diagnosis.k, coverage.base, coverage.tuned) == ("CANNOT TELL", 2, 0.625, 0.625)
    assert coverage.wide == pytest.approx((-0.6496, 0.6496), abs=1e-3)
    assert coverage.narrow == pytest.approx((-0.5817, 0.4804), abs=1e-3)
    assert found.exit_code == 4
    # a, b, c and d have 3, 1, 0 and 4, or 4, 0, 1 and 4 right samples of 4.
    curves = found.tables["passk"].group_by("method", maintain_order=True).agg("value")["value"].to_list()
    assert curves == [pytest.approx([0.5, 0.625, 0.75]), pytest.approx([0.5625, 0.625, 0.75])]
    assert found.tables["answers"]["repeated"].to_list() == [0.25, 0.625]
    assert found.models["two"].lost.rows() == [("b", 1, 4, 4)]


NOTATIONS = ["\\boxed{\\frac{1}{2}}", "\\boxed{0.5}", "that is 1/2. \\boxed{1/2}", "<answer>1/2</answer>"]


def varieties(base, tuned, **options):
    """By kind the numbers of classes of both models; 40 questions with these samples."""
    files = [sample_file(name, {f"q{n}": texts for n in range(40)}) for name, texts in (("b", base), ("t", tuned))]
    (model,) = diagnose(files, **options).models.values()
    return {one.kind: (one.difference.base, one.difference.tuned) for one in model.varieties}


@pytest.mark.parametrize(
    ("base", "tuned", "expected"),
    [
        # Whole responses, enumerated among 4 right ones.
        (["+x", "+y", "+z", "+x"], ["+x", "+x", "+y", "+x"], {"responses": (3, 2)}),
        # Answers, where nothing is calculated.
        (["+ so\nA: red", "+ so\nA: blue"], ["+ so\nA: red", "+ so\nA: red"], {"answers": (2, 1)}),
        # Ways of calculating, without the numbers.
        (
            ["+ 2 + 2 = 4 \\boxed{4}", "+ 2 * 2 = 4, \\boxed{4.0}"],
            ["+ 2 + 2 = 4 \\boxed{4}", "+ 3 + 1 = 4 \\boxed{4.00}"],
            {"skeletons": (2, 1)},
        ),
        # Notations of the answer are no other way.
        (
            [f"+ 4 + 3 = 7, so {text}" for text in NOTATIONS] + ["- 4 * 3 = 12"] * 4,
            [f"+ 4 + 3 = 7, so {NOTATIONS[0]}"] * 4 + ["- 4 * 3 = 12"] * 4,
            {"skeletons": (1, 1)},
        ),
    ],
)
def test_classes_of_right_answers(base, tuned, expected):
    assert varieties(base, tuned) == expected


def test_styles_are_reported_before_answers():
    rules = (StyleRule(name="long", prefix="+ long"), StyleRule(name="short", prefix="+ short"))
    found = varieties(["+ long", "+ short"] * 2, ["+ long"] * 4, styles=rules)
    assert next(iter(found.items())) == ("styles", (2, 1))


def test_ids_that_name_other_questions_are_not_trusted():
    """Two tools number the same questions in another order."""
    texts = ({"0": "What?", "1": "Why?"}, {"1": "What?", "0": "Why?"})
    files = [sample_file(name, {"0": ["+"], "1": ["-"]}) for name in ("base", "two")]
    asked = [pl.col("question_id").replace_strict(text) for text in texts]
    files = [replace(one, rows=one.rows.with_columns(question=text)) for one, text in zip(files, asked, strict=True)]
    found = joined(*files)
    assert found.rows["base"].select("prompt_id", "correct").rows() == [("What?", True), ("Why?", False)]
    assert found.rows["two"].select("prompt_id", "correct").rows() == [("What?", False), ("Why?", True)]
    assert "2 ids name different questions" in found.notes[0]


def test_a_file_with_ids_is_joined_to_one_without_by_the_texts():
    base, tuned = (sample_file(name, {"a": ["+"], "b": ["-"]}) for name in ("base", "two"))
    found = joined(base, replace(tuned, rows=tuned.rows.with_columns(question_id="question")))
    assert found.questions["prompt_id"].to_list() == ["A", "B"]


def test_samples_that_are_not_judged_are_left_out_or_an_error():
    base, tuned = sample_file("base", {"a": ["+", "?"], "b": ["+", "-"]}), sample_file("two", {"a": ["+"], "b": ["-"]})
    verdict = pl.when(pl.col("text") != "?").then("correct")
    part = replace(base, rows=base.rows.with_columns(correct=verdict))
    found = joined(part, tuned)
    assert found.rows["base"].height == 3
    assert "base: 1 of 4 samples are not judged and left out" in found.notes
    none = replace(base, rows=base.rows.with_columns(correct=pl.lit(None, pl.Boolean)), head={"metric": {"m": [0.5]}})
    with pytest.raises(SourceError, match=r"base.jsonl: no sample is judged.*--task math.*the fields metric\.m\."):
        joined(none, part)


def test_k_leaves_out_a_fifth_of_the_questions_at_most():
    files = [sample_file(name, dict.fromkeys("abcd", ["+"] * n) | {"e": ["+"] * 2}) for name, n in (("b", 4), ("t", 8))]
    assert diagnose(files).models["t"].diagnosis.k == 2
    found = diagnose(files, k=4)
    diagnosis = found.models["t"].diagnosis
    assert (diagnosis.k, diagnosis.by_hand, diagnosis.coverage.questions) == (4, True, 4)
    assert found.notes[0] == "1 questions have fewer than 4 samples in a file and are left out: 'e'"
    with pytest.raises(SourceError, match=r"--k 5: .*largest possible k is 4"):
        diagnose(files, k=5)


@pytest.mark.parametrize(
    ("row", "task", "key", "truth"),
    [
        ({"id": 0.0, "answer": "so 4 #### 4"}, "math", "0", {"answer": "4"}),
        ({"problem": "cafe\u0301", "solution": "\\boxed{3}"}, "math", "caf\u00e9", {"answer": "3"}),
        ({"idx": 1, "db_id": "d", "query": "SELECT 1"}, "sql", "1", {"db_id": "d", "gold_sql": "SELECT 1"}),
        ({"idx": 1, "gold": {"db_id": "d", "gold_sql": "S"}}, "sql", "1", {"db_id": "d", "gold_sql": "S"}),
    ],
)
def test_golds_have_the_names_of_datasets(tmp_path, row, task, key, truth):
    assert read_golds(lines(tmp_path / "golds.jsonl", row), task) == {key: truth}
    with pytest.raises(SourceError, match=r"golds\.jsonl, line 1: expected an id or the text"):
        read_golds(lines(tmp_path / "golds.jsonl", {"answer": 1}), task)
    with pytest.raises(SourceError, match=r"golds\.jsonl, line 1: expected (answer|db_id)"):
        read_golds(lines(tmp_path / "golds.jsonl", {"id": 1}), task)


@pytest.mark.parametrize(
    ("base", "tuned", "margin", "word"),
    [
        ("++", "11", 0.1, "NARROWED"),
        ("11", "++", 0.1, "NOT COLLAPSED"),
        ("++", "11", 0.01, "CANNOT TELL"),
    ],
)
def test_the_diagnosis_is_about_coverage_and_variety_follows(base, tuned, margin, word):
    """40 questions of these, 40 that both models solve in the same two ways, 80 that none solves."""
    ways = {"++": ["+x", "+y"], "11": ["+x", "+x"]}
    files = []
    for name, letters in (("base", base), ("two", tuned)):
        answers = {f"q{n}": ways[letters] for n in range(40)} | {f"same{n}": ["+x", "+y"] for n in range(40)}
        files.append(sample_file(name, answers | {f"none{n}": ["-", "-"] for n in range(80)}))
    assert diagnose(files, margin=margin).models["two"].diagnosis.word == word


def test_truncated_answers_qualify_what_they_may_explain():
    solved, unsolved = ({f"q{n}": [sign if n % 2 else "-"] * 2 for n in range(200)} for sign in "+-")

    def qualified(base, tuned, truncated):
        files = [sample_file("base", base, truncated=not truncated), sample_file("two", tuned, truncated=truncated)]
        model = diagnose(files).models["two"]
        return model.diagnosis.word, sum("truncated" in doubt for doubt in model.doubts)

    assert qualified(solved, unsolved, truncated=True) == ("WORSE", 1)
    assert qualified(solved, unsolved, truncated=False) == ("WORSE", 0)
    assert qualified(solved, solved, truncated=True) == ("NOT COLLAPSED", 0)
    assert qualified(solved, solved, truncated=False) == ("NOT COLLAPSED", 1)


def test_a_question_without_a_group_is_a_group_of_its_own():
    groups = {f"q{number:04}": f"g{number % 10}" for number in range(59)}
    files = [drawn_file(name, [0.5] * 60, 8, seed, cluster=groups) for seed, name in enumerate("bt")]
    assert diagnose(files).models["t"].diagnosis.coverage.groups == 11
    assert diagnose([drawn_file(name, [0.5] * 60, 8, 0) for name in "bt"]).models["t"].diagnosis.coverage.groups is None


def test_more_questions_do_not_outweigh_trainings_that_differ():
    """Trainings at -10, 0 and +10 points: no number of questions narrows that."""
    base, *tuned = (drawn_file(f"f{seed}", [rate] * 300, 8, seed) for seed, rate in enumerate((0.1, 0.075, 0.1, 0.13)))
    diagnosis = diagnose([base], trainings={"t": tuned}).models["t"].diagnosis
    assert (diagnosis.word, diagnosis.more_questions) == ("CANNOT TELL", None)


def test_names_of_policies():
    names = policy_names([sample_file(one, {}) for one in ("base", "base", "grpo", "grpo", "base_itself")])
    assert names == ["base", "base (2)", "grpo", "grpo (2)", "base_itself (2)"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["base.jsonl", "a/tuned.jsonl"], ["base", "tuned"]),
        (["base/r.jsonl", "tuned/r.jsonl", "last.jsonl"], ["base", "tuned", "last"]),
        (["v/base/d/0.parquet", "v/g-s1/step4/d/0.parquet"], ["base", "g-s1/step4"]),
        (["v/base/d/0.parquet", "v/g/step4/d/0.parquet", "v/g/step8/d/0.parquet"], ["base", "g/step4", "g/step8"]),
        (["r.jsonl", "tuned/r.jsonl"], ["r", "tuned"]),
        (["a/a/r.jsonl", "a/r.jsonl"], ["a", "r"]),
        (["a/r.jsonl", "./a/../a/r.jsonl"], ["r", "r"]),
    ],
)
def test_files_of_the_same_name_are_named_by_what_differs(paths, names):
    assert shown_as([Path(path) for path in paths]) == names


def test_classes_count_where_every_file_has_them():
    """Whole responses are compared with another tool's file, classes of programs with a file that has them."""
    answers = {f"q{n}": ["+x", "+y"] for n in range(40)}
    plain = sample_file("plain", answers)
    classes = {"answer_class": pl.lit("1"), "program_class": pl.lit("p")}
    scored = replace(sample_file("scored", answers), rows=plain.rows.with_columns(**classes))
    for files, expected in (((scored, scored), {"programs": 1, "answers": 1}), ((scored, plain), {"responses": 2})):
        (model,) = diagnose(files).models.values()
        assert {one.kind: one.difference.base for one in model.varieties} == expected


def test_answers_are_alike_by_value():
    texts = [
        "+ \\boxed{4}",
        "+ \\boxed{4.0} {x}",
        "+\n#### 04",
        "+ \\boxed{\\frac{8}{2}}",
        "+\nA: 4",
        "+ \\boxed{4}\nis 4",
    ]
    texts += ["- \\boxed{-4}", "- \\boxed{4_8}", "- \\boxed{4", "- \\boxed{99999999999999999999}", "- nothing"]
    found = diagnose([sample_file(name, {"a": texts}) for name in ("base", "two")])
    assert found.models["two"].study.policies[0].codes("answers")[0].tolist() == [0, 0, 0, 0, 0, 0, 6, 7, -1, 9, -1]


def test_where_a_loss_lies_by_enumeration(found):
    """pass@2 by right samples of the base: a has 3 of 4, b one, c none, d all."""
    rows = found.tables["by_base"].select("right", "questions", "base", "tuned").rows()
    assert rows == [("none", 1, 0.0, 0.5), ("1", 1, 0.5, 0.0), ("more", 2, 1.0, 1.0)]


def _doubts(base, tuned, **columns):
    (model,) = diagnose([sample_file("base", base, **columns), sample_file("two", tuned, **columns)]).models.values()
    return model.diagnosis.word, " ".join(model.doubts)


def _texts(question, seed, n=8):
    random = np.random.default_rng([seed, question])
    return [f"{'+' if question % 3 and one < 0.7 else '-'} a long response {one:.6f}" for one in random.random(n)]


def test_samples_that_are_there_twice_are_doubted():
    base, tuned = ({f"q{n}": _texts(n, seed) for n in range(60)} for seed in (0, 1))
    assert "twice" not in _doubts(base, tuned)[1]
    assert "each sample of two is there twice" in _doubts(base, {key: texts * 2 for key, texts in tuned.items()})[1]
    # A model with one response repeats it without being a copy.
    assert "twice" not in _doubts(base, {key: texts[:1] * 8 for key, texts in tuned.items()})[1]


def test_questions_with_the_responses_of_another_question_are_doubted():
    base, tuned = ({f"q{n}": _texts(n % 60, seed) for n in range(120)} for seed in (0, 1))
    assert "60 questions of base have exactly the responses of another question" in _doubts(base, tuned)[1]
    other = {f"q{n}": _texts(n, 2) for n in range(120)}
    assert "another question" not in _doubts(other, {f"q{n}": _texts(n, 3) for n in range(120)})[1]
    # Short answers are equal by chance.
    letters = {f"q{n}": ["+A", "+A", "-B", "-B"] for n in range(120)}
    assert "another question" not in _doubts(letters, letters)[1]


def test_missing_questions_are_named_and_may_be_losses():
    files = [sample_file(name, {key: ["+"] for key in keys}) for name, keys in (("base", "abcde"), ("two", "defgh"))]
    assert joined(*files).left_out == {"base": ["a", "b", "c"], "two": ["f", "g", "h"]}
    assert joined(*files).notes[1] == "two: 3 questions are not in every file and left out: 'f', 'g', 'h'"
    base = {f"q{n}": _texts(n, 0) for n in range(400)}
    for missing, doubted in ((4, False), (40, True)):
        tuned = {f"q{n}": _texts(n, 1) for n in range(400 - missing)}
        word, doubts = _doubts(base, tuned)
        assert (word, "as losses" in doubts) == ("NOT COLLAPSED", doubted)


def test_files_without_a_temperature_or_with_two_may_be_drawn_colder():
    base = {f"q{n}": ["+x", "-y", "+z", "-u"] for n in range(100)}
    lost = {key: ["+x"] * 4 if n < 50 else ["-"] * 4 for n, key in enumerate(base)}
    assert "no temperature is named for base and two" in _doubts(base, lost)[1]
    assert "temperature" not in _doubts(base, lost, settings={"temperature": "1"})[1]
    assert "temperature" not in _doubts(base, base)[1]
    files = [sample_file(name, lost, settings={"temperature": t}) for name, t in (("base", "1"), ("two", "0.6"))]
    assert any("temperature: 1 (base), 0.6 (two)" in doubt for doubt in diagnose(files).models["two"].doubts)


def test_a_copy_of_the_base_is_doubted():
    base = {f"q{n}": ["+", "-"] for n in range(40)}
    assert "copy of the same file" in _doubts(base, base)[1]
    assert "copy" not in _doubts(base, base | {"q0": ["+", "+"]})[1]


def test_a_further_file_changes_neither_k_nor_the_questions_of_another():
    files = [
        drawn_file(name, [0.4] * 80, n, seed) for seed, (name, n) in enumerate([("b", 16), ("same", 16), ("few", 4)])
    ]
    alone = diagnose(files[:2]).models["same"].diagnosis
    together = diagnose(files).models
    assert (together["same"].diagnosis.k, together["few"].diagnosis.k) == (8, 2)
    assert together["same"].diagnosis.coverage == alone.coverage
