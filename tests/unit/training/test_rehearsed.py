"""Which questions are rehearsed with which responses, and when."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import torch
from stored_responses import store, table_of
from tiny_models import tiny_model

from dphrl.config.blocks.training import Rehearsed
from dphrl.data.partition_counts import stored_rows
from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.training.reference import ReferenceJob, reference_rows, tensorise
from dphrl.training.schedule import epoch_indices
from dphrl.training.stored_responses import ReferenceResponses

# Of each question: its subset, the token of its right refinement sample, and the tokens of four pre-samples with a
# minus where they are wrong.
QUESTIONS: dict[str, tuple[str, int | None, list[int]]] = {
    "a": ("pef", 8, [7, 8, 7, 9]),
    "b": ("pef", 6, [7, -7, 7, 8]),
    "c": ("exp", None, [5, 6, 5, 5]),
    "d": ("exp", None, [-4, 5, -5, 4]),
    "e": ("exp", None, [-4, -4, 5, -4]),
    "f": ("exp", None, [-4, -4, -4, -4]),
    "g": ("dropped", None, [4, 4, 4, 4]),
}
# The stored responses as tokens, in their order; those after the first of D_pef with the number of their pre-sample.
STORED: dict[tuple[Rehearsed, int], dict[str, list[tuple[int, int]]]] = {
    ("pef", 1): {"a": [(8, 0)], "b": [(6, 0)]},
    ("pef", 2): {"a": [(8, 0), (7, 0)], "b": [(6, 0), (7, 0)]},
    ("pef", 8): {"a": [(8, 0), (7, 0), (9, 3), (8, 1), (7, 2)], "b": [(6, 0), (7, 0), (8, 3), (7, 2)]},
    ("right", 1): {"a": [(8, 0)], "b": [(6, 0)], "c": [(5, 0)], "d": [(5, 1)], "e": [(5, 2)]},
    ("right", 3): {
        "a": [(8, 0), (7, 0), (9, 3)],
        "b": [(6, 0), (7, 0), (8, 3)],
        "c": [(5, 0), (6, 1), (5, 2)],
        "d": [(5, 1), (4, 3)],
        "e": [(5, 2)],
    },
    ("boundary", 1): {"b": [(6, 0)], "d": [(5, 1)], "e": [(5, 2)]},
    ("boundary", 2): {"b": [(6, 0), (7, 0)], "d": [(5, 1), (4, 3)], "e": [(5, 2)]},
    ("boundary", 8): {"b": [(6, 0), (7, 0), (8, 3), (7, 2)], "d": [(5, 1), (4, 3)], "e": [(5, 2)]},
}


def _tables() -> dict[str, pl.DataFrame]:
    """The tables of the reference stage, in key order."""
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in ("partition", "prompts", "refined", "presamples")}
    verdicts: list[dict[str, object]] = []
    drawn = {"seed": 1, "text": "", "finish_reason": "stop"}
    for number, (name, (subset, refined, tokens)) in enumerate(QUESTIONS.items()):
        judged = {"n": 4, "c": sum(token > 0 for token in tokens), "subset": subset, "reason": ""}
        reference = None if refined is None else 0
        rows["partition"].append({"prompt_id": name, **judged, "reference_sample": reference})
        prompt = {"task": "sql", "messages": "[]", "prompt_token_ids": [3, number], "thought_open": False}
        rows["prompts"].append({"prompt_id": name, **prompt, "source": "toy", "source_index": number})
        samples = [("presamples", index, abs(token)) for index, token in enumerate(tokens)]
        for table, index, token in samples if refined is None else [("refined", 0, refined), *samples]:
            sample = {"prompt_id": name, "sample_index": index, "token_ids": [token, 2], "sampler_logprobs": [-1.0] * 2}
            rows[table].append(sample | drawn)
        for index, token in enumerate(tokens):
            verdict = {"prompt_id": name, "sample_index": index, "correct": token > 0, "reward": float(token > 0)}
            verdicts.append(verdict | {"verdict": "correct" if token > 0 else "wrong"})
    schemas = {"refined": "rollouts", "presamples": "rollouts"}
    frames = {name: pl.DataFrame(of, SCHEMAS[schemas.get(name, name)].columns) for name, of in rows.items()}
    return frames | {"verdicts": pl.DataFrame(verdicts, SCHEMAS["verdicts"].columns)}


TABLES = _tables()


@pytest.mark.parametrize(("rehearse", "most"), STORED)
def test_a_question_has_its_refinement_sample_then_different_pre_samples_then_repeated_ones(
    rehearse: Rehearsed, most: int
) -> None:
    rows = reference_rows(**TABLES, rehearse=rehearse, most=most)
    expected = [(name, *row) for name, of in STORED[rehearse, most].items() for row in of]
    found = zip(rows["prompt_id"], rows["token_ids"].to_list(), rows["sample_index"], strict=True)
    assert [(name, tokens[0], index) for name, tokens, index in found] == expected
    assert rows["prompt_token_ids"].to_list() == [[3, "abcdefg".index(name)] for name, *_ in expected]
    counts = TABLES["partition"].select("prompt_id", rows=stored_rows(rehearse, most)).filter(pl.col("rows") > 0)
    assert dict(counts.iter_rows()) == {name: len(of) for name, of in STORED[rehearse, most].items()}


def test_the_order_of_the_samples_decides_nothing() -> None:
    shuffled = {name: table.sample(fraction=1, shuffle=True, seed=3) for name, table in TABLES.items()}
    for rehearse, most in STORED:
        expected = reference_rows(**TABLES, rehearse=rehearse, most=most)
        assert reference_rows(**shuffled, rehearse=rehearse, most=most).equals(expected)


@pytest.mark.parametrize(
    ("table", "lost"), [("refined", "b"), ("presamples", "d"), ("verdicts", "e"), ("prompts", "b")]
)
def test_a_question_without_one_of_its_responses_is_an_error(table: str, lost: str) -> None:
    lacking = TABLES | {table: TABLES[table].filter(pl.col("prompt_id") != lost)}
    with pytest.raises(ValueError, match=f"1 questions lack a prompt or a right sample, first {lost}"):
        reference_rows(**lacking, rehearse="boundary", most=2)


def test_parts_and_the_order_of_files_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, list[str]] = {}
    for name, table in TABLES.items():
        schema = "rollouts" if name in ("refined", "presamples") else name
        write_table(table, schema, tmp_path / f"{name}.parquet", {})
        shards = [tmp_path / f"{name}-{shard}.parquet" for shard in (1, 0)]
        for shard, rows in zip(shards, (table[14:], table[:14]), strict=True):
            write_table(rows, schema, shard, {})
        files |= {name: [*map(str, shards)]} if name in ("presamples", "verdicts") else {}
    job = ReferenceJob.model_validate(
        {
            **{name: str(tmp_path / f"{name}.parquet") for name in ("partition", "prompts")},
            "rollouts": [str(tmp_path / "refined.parquet")],
            **{"policy": "", "dtype": "float32", "topk_logprobs": 0, "output": "", "hardware": {}, "label": ""},
            **{"rehearse": "right", "rows_per_question": 8, **files},
        }
    )
    module = LogProbs(tiny_model(20))
    ((_, whole),) = tensorise([reference_rows(**TABLES, rehearse="right", most=8)], module, 1)
    monkeypatch.setattr("dphrl.store.parquet.PART", 8)
    parts = [index for _, index in job.tensorised(module, lambda *given: _computed(*given))]
    assert len(parts) > 2
    assert pl.concat(parts).drop("max_sampler_gap").equals(whole.drop("max_sampler_gap"))


def _computed(module, rows, cut, top_k):
    return [(torch.zeros(len(row.response)),) for row in rows]


def _stored(folder: Path, responses: dict[str, list[list[int]]]) -> ReferenceResponses:
    """Responses, of which some questions have several."""
    rows = [Row([3], tokens) for of_question in responses.values() for tokens in of_question]
    questions = [name for name, of_question in responses.items() for _ in of_question]
    return store(table_of(rows, questions), LogProbs(tiny_model(20)), 0, folder)


def test_questions_count_alike_and_each_epoch_takes_the_next_response(tmp_path: Path) -> None:
    stored = _stored(tmp_path, {"a": [[4], [5], [6]], "b": [[7]], "c": [[8], [9]]})
    assert len(stored) == 6
    steps = [stored.of_step(7, step, 2) for step in range(1, 10)]
    # Nine steps of two are six epochs of three questions, across the ends of epochs.
    rows = [row for step in steps for row in step]
    epochs = [rows[start : start + 3] for start in range(0, 18, 3)]
    assert [sorted(epoch) for epoch in epochs] == [[epoch % 3, 3, 4 + epoch % 2] for epoch in range(6)]
    assert Counter(rows) == {0: 2, 1: 2, 2: 2, 3: 6, 4: 3, 5: 3}


def test_with_one_response_of_each_question_a_step_is_that_of_the_rows(tmp_path: Path) -> None:
    stored = _stored(tmp_path, {name: [[4, 5]] for name in "abcde"})
    for step in range(1, 8):
        assert stored.of_step(3, step, 4) == epoch_indices(3, "rehearsal", step, 4, 5)
