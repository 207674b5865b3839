"""Tables, whole, in shards and in parts: violations of a schema, footers, digests, bytes."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_tables import rows_digest

from dphrl.store import parquet as tables
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import by_prompts, read_footer, read_table, write_table
from dphrl.store.schema import SchemaError
from dphrl.store.stage import Stage

ROLLOUTS = SCHEMAS["rollouts"]
FOOTER = {"stage": "sample", "seed": 1}


def _rollouts(*keys: tuple[str, int]) -> pl.DataFrame:
    rows = [
        {
            "prompt_id": prompt_id,
            "sample_index": index,
            "seed": 2**62 + index,
            "token_ids": list(range(index + 2)),
            "sampler_logprobs": [-0.1 * i for i in range(index + 2)],
            "text": f"answer {index}",
            "finish_reason": "stop",
        }
        for prompt_id, index in keys
    ]
    return pl.DataFrame(rows, schema=ROLLOUTS.columns)


FRAME = _rollouts(("b", 1), ("a", -1), ("a", 0), ("b", 0))


def _broken(**columns: Any) -> pl.DataFrame:
    """FRAME with other values in some columns of its second row, ("a", -1)."""
    rows = FRAME.to_dicts()
    rows[1] |= columns
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (FRAME.drop("seed"), "misses columns ['seed']"),
        (FRAME.with_columns(pl.lit(1).alias("extra")), "unknown columns ['extra']"),
        (FRAME.with_columns(pl.col("sample_index").cast(pl.Float64)), "column 'sample_index' is Float64"),
        (FRAME.with_columns(pl.col("token_ids").cast(pl.List(pl.Float64))), "column 'token_ids' is List(Float64)"),
        (_broken(sample_index=2**31), "column 'sample_index'"),
        (_broken(text=None), "column 'text' has a null in 1 rows, first prompt_id 'a', sample_index -1"),
        (_broken(token_ids=None), "column 'token_ids' has a null in 1 rows, first prompt_id 'a', sample_index -1"),
        (_broken(token_ids=[1, None]), "column 'token_ids' has a null in 1 rows, first prompt_id 'a', sample_index -1"),
        (_broken(finish_reason="abort"), "than stop, length in 1 rows, first prompt_id 'a', sample_index -1: 'abort'"),
        (
            _broken(sample_index=-2),
            "leaves [-1, inf] or is not a number in 1 rows, first prompt_id 'a', sample_index -2",
        ),
        (_broken(sampler_logprobs=[float("nan")]), "column 'sampler_logprobs' leaves [-inf, 0.0] or is not a number"),
        (
            _broken(sample_index=0),
            "key ('prompt_id', 'sample_index') repeats in 2 rows, first prompt_id 'a', sample_index 0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_table_is_not_written(frame: pl.DataFrame, named: str, tmp_path: Path) -> None:
    path = tmp_path / "rollouts.parquet"
    with pytest.raises(SchemaError) as error:
        write_table(frame, "rollouts", path, FOOTER)
    assert named in str(error.value)
    assert str(path) in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_widths_order_and_empty_columns_are_made_as_declared(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.parquet"
    frame = pl.DataFrame({name: [None] for name in SCHEMAS["verdicts"].nullable}).with_columns(
        reward=pl.lit(1),
        correct=pl.lit(True),
        verdict=pl.lit("correct"),
        sample_index=pl.lit(0, pl.Int64),
        prompt_id=pl.lit("a"),
    )
    write_table(frame, "verdicts", path, FOOTER)
    assert dict(pl.read_parquet(path).schema) == SCHEMAS["verdicts"].columns
    assert dict(read_table(path, "verdicts").schema) == SCHEMAS["verdicts"].columns


def _not_parquet(path: Path) -> None:
    path.write_bytes(b"not parquet")


def _cut_off(path: Path) -> None:
    write_table(FRAME, "rollouts", path, FOOTER)
    path.write_bytes(path.read_bytes()[:-40])


def _other_schema(path: Path) -> None:
    write_table(pl.DataFrame({"step": [1], "metric": ["reward"], "value": [0.5]}), "metrics", path, FOOTER)


def _older(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCHEMAS, "rollouts", replace(ROLLOUTS, version=0))
        write_table(FRAME, "rollouts", path, FOOTER)


@pytest.mark.parametrize(
    ("write", "named"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.touch(), "empty"),
        (_not_parquet, "delete it and run snakemake again"),
        (_cut_off, " in its footer, "),
        (_other_schema, "holds 'metrics' version 1, expected 'rollouts' 1"),
        (_older, "holds 'rollouts' version 0, expected 'rollouts' 1"),
    ],
)
def test_another_file_is_refused_by_name(write: Callable[[Path], None], named: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(path)
    with pytest.raises(SchemaError) as error:
        read_table(path, "rollouts")
    assert named in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("verify", [True, False])
def test_a_table_of_another_program_is_not_ours_to_delete(verify: bool, tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match=r"x\.parquet: no artifact of this workflow: its footer has no 'dphrl'$"):
        read_footer(tmp_path / "x.parquet", verify=verify)


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_table(FRAME, "rollouts", path, FOOTER)
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(SchemaError, match=f"{path}: .* snakemake again"):
            read_footer(path)


def test_text_in_a_table_is_not_taken_for_its_sha256(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    text = f'"file_sha256": "{"0" * 64}"'
    frame = FRAME.with_columns(text=pl.lit(text))
    write_table(frame, "rollouts", path, {"config": {"a": text, "file_sha256": "0" * 64}})
    assert read_table(path, "rollouts").equals(frame.sort(ROLLOUTS.key))


def test_every_schema_has_a_different_text() -> None:
    texts = [schema.canonical() for schema in SCHEMAS.values()]
    assert len(set(texts)) == len(texts)
    assert [name for name, schema in SCHEMAS.items() if schema.name != name] == []
    stray = {
        name
        for name, schema in SCHEMAS.items()
        if {*schema.key, *schema.nullable, *schema.enums, *schema.bounds} - set(schema.columns) or not schema.key
    }
    assert stray == set()


@pytest.fixture
def job() -> Stage:
    return Stage(Path(), "refine", "c0de", {})


def _verdicts(samples: dict[str, int]) -> pl.DataFrame:
    rows = [
        {"prompt_id": prompt, "sample_index": i, "verdict": "correct", "correct": True, "reward": 1.0, "detail": "é"}
        for prompt, n in samples.items()
        for i in range(n)
    ]
    return pl.DataFrame(rows, schema=SCHEMAS["verdicts"].columns).sort("prompt_id", "sample_index")


VERDICTS = _verdicts({"a": 3, "b": 7, "c": 1, "d": 2, "é": 1})


def _shards(folder: Path, *frames: pl.DataFrame) -> list[str]:
    paths = [folder / f"{number}.parquet" for number in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        write_table(frame, "verdicts", path, {})
    return [str(path) for path in paths]


def test_the_digest_of_one_file_is_of_its_rows_and_of_shards_over_their_digests(tmp_path: Path, job: Stage) -> None:
    parts = [VERDICTS[start:end] for start, end in pairwise([0, 0, 5, 5, VERDICTS.height])]
    paths = _shards(tmp_path, *parts)
    assert job.scan("verdicts", paths).collect().equals(VERDICTS)
    assert read_table([Path(path) for path in paths], "verdicts").equals(VERDICTS)
    digests = "".join(rows_digest(part, "verdicts") for part in parts)
    assert job.inputs["verdicts"]["digest"] == hashlib.sha256(digests.encode()).hexdigest()
    for path, part in zip(paths, parts, strict=True):
        assert job.read("verdicts", path).equals(part)
        assert job.inputs["verdicts"]["digest"] == rows_digest(part, "verdicts")


@pytest.mark.parametrize("frames", [(VERDICTS[:8], VERDICTS[6:]), (VERDICTS[8:], VERDICTS[:8])])
def test_shards_that_do_not_follow_each_other_are_refused(
    tmp_path: Path, job: Stage, frames: tuple[pl.DataFrame, ...]
) -> None:
    with pytest.raises(SchemaError, match=r"1\.parquet: key .* repeats or is out of order: \('[ab]', \d\) comes after"):
        job.scan("verdicts", _shards(tmp_path, *frames))


@pytest.mark.parametrize("parts", [[VERDICTS], [VERDICTS[:1], VERDICTS[1:1], VERDICTS[1:10], VERDICTS[10:]], []])
def test_a_table_written_in_parts_reads_as_one(tmp_path: Path, job: Stage, parts: list[pl.DataFrame]) -> None:
    path = tmp_path / "new" / "verdicts.parquet"
    job.write(iter(parts), "verdicts", str(path))
    whole = pl.concat([VERDICTS[:0], *parts])
    assert read_table(path, "verdicts").equals(whole)
    footer = read_footer(path)
    assert (footer["rows"], footer["digest"]) == (whole.height, rows_digest(whole, "verdicts"))
    assert list(path.parent.iterdir()) == [path]


def test_the_bytes_depend_neither_on_the_order_of_rows_nor_on_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 6)
    path, written = tmp_path / "verdicts.parquet", set()
    whole = [VERDICTS, VERDICTS[::-1], pl.concat([VERDICTS[9:], VERDICTS[:9]], rechunk=False)]
    for rows in (*whole, [VERDICTS], [VERDICTS[:5], VERDICTS[5:6], VERDICTS[6:]]):
        write_table(rows, "verdicts", path, FOOTER)
        written.add(path.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("parts", [[VERDICTS[5:], VERDICTS[:5]], [VERDICTS[:5], VERDICTS[4:]]])
def test_parts_out_of_order_leave_no_file(tmp_path: Path, job: Stage, parts: list[pl.DataFrame]) -> None:
    with pytest.raises(SchemaError, match="verdicts"):
        job.write(parts, "verdicts", str(tmp_path / "verdicts.parquet"))
    assert not list(tmp_path.iterdir())


@given(
    samples=st.dictionaries(st.text("abcé", min_size=1, max_size=3), st.integers(1, 9)),
    gold=st.lists(st.text("abcé", min_size=1, max_size=3), unique=True),
)
def test_every_row_comes_once_with_those_of_its_prompt(samples: dict[str, int], gold: list[str]) -> None:
    frame = _verdicts(samples)
    other = pl.DataFrame({"prompt_id": gold}, schema={"prompt_id": pl.String})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PART", 4)
        parts = list(by_prompts(frame.lazy(), other.lazy()))
    assert pl.concat([lead for lead, _ in parts]).equals(frame)
    assert sorted(pl.concat([rest for _, rest in parts])["prompt_id"]) == sorted(gold)
    prompts = [set(lead["prompt_id"]) | set(rest["prompt_id"]) for lead, rest in parts]
    assert sum(map(len, prompts)) == len(set(gold) | samples.keys())
    assert all(lead.height < 4 + 9 for lead, _ in parts)
