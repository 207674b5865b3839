"""Tables in shards and in parts: rows, digests and checks."""

import hashlib
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_tables import rows_digest

from dphrl.store import parquet as tables
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import by_prompts, read_footer, read_table, write_table
from dphrl.store.schema import SchemaError
from dphrl.store.stage import Stage, library_version


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PART", 4)


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


FRAME = _verdicts({"a": 3, "b": 7, "c": 1, "d": 2, "é": 1})


def _shards(folder: Path, *frames: pl.DataFrame) -> list[str]:
    paths = [folder / f"{number}.parquet" for number in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        write_table(frame, "verdicts", path, {})
    return [str(path) for path in paths]


def test_the_digest_of_one_file_is_of_its_rows_and_of_shards_over_their_digests(tmp_path: Path, job: Stage) -> None:
    parts = [FRAME[start:end] for start, end in pairwise([0, 0, 5, 5, FRAME.height])]
    paths = _shards(tmp_path, *parts)
    assert job.scan("verdicts", paths).collect().equals(FRAME)
    assert read_table([Path(path) for path in paths], "verdicts").equals(FRAME)
    digests = "".join(rows_digest(part, "verdicts") for part in parts)
    assert job.inputs["verdicts"]["digest"] == hashlib.sha256(digests.encode()).hexdigest()
    for path, part in zip(paths, parts, strict=True):
        assert job.read("verdicts", path).equals(part)
        assert job.inputs["verdicts"]["digest"] == rows_digest(part, "verdicts")


@pytest.mark.parametrize("frames", [(FRAME[:8], FRAME[6:]), (FRAME[8:], FRAME[:8])])
def test_shards_that_do_not_follow_each_other_are_refused(
    tmp_path: Path, job: Stage, frames: tuple[pl.DataFrame, ...]
) -> None:
    with pytest.raises(SchemaError, match=r"1\.parquet: key .* repeats or is out of order: \('[ab]', \d\) comes after"):
        job.scan("verdicts", _shards(tmp_path, *frames))


@pytest.mark.parametrize("parts", [[FRAME], [FRAME[:1], FRAME[1:1], FRAME[1:10], FRAME[10:]], []])
def test_a_table_written_in_parts_reads_as_one(tmp_path: Path, job: Stage, parts: list[pl.DataFrame]) -> None:
    path = tmp_path / "new" / "verdicts.parquet"
    job.inputs["gold"] = {"paths": ["gold/train.parquet"], "digest": "abc"}
    job.write(iter(parts), "verdicts", str(path))
    assert read_table(path, "verdicts").equals(pl.concat([FRAME[:0], *parts]))
    footer = read_footer(path)
    assert footer.pop("file_sha256")
    assert footer == {
        "schema": "verdicts",
        "version": 1,
        "rows": sum(part.height for part in parts),
        "digest": rows_digest(pl.concat([FRAME[:0], *parts]), "verdicts"),
        "path": path.name,
        "made_by": f"dphrl {library_version('dphrl')}",
        **job.footer(),
    }
    assert list(path.parent.iterdir()) == [path]


def test_the_bytes_do_not_depend_on_the_parts(tmp_path: Path, job: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 6)
    path = tmp_path / "verdicts"
    job.write(FRAME, "verdicts", str(path))
    whole = path.read_bytes()
    for parts in ([FRAME], [FRAME[:5], FRAME[5:6], FRAME[6:]]):
        job.write(parts, "verdicts", str(path))
        assert path.read_bytes() == whole


@pytest.mark.parametrize("parts", [[FRAME[5:], FRAME[:5]], [FRAME[:5], FRAME[4:]], [FRAME.drop("reward")]])
def test_parts_that_break_the_schema_or_the_order_leave_no_file(
    tmp_path: Path, job: Stage, parts: list[pl.DataFrame]
) -> None:
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
    parts = list(by_prompts(frame.lazy(), other.lazy()))
    assert pl.concat([lead for lead, _ in parts]).equals(frame)
    assert sorted(pl.concat([rest for _, rest in parts])["prompt_id"]) == sorted(gold)
    prompts = [set(lead["prompt_id"]) | set(rest["prompt_id"]) for lead, rest in parts]
    assert sum(map(len, prompts)) == len(set(gold) | samples.keys())
    assert all(lead.height < 4 + 9 for lead, _ in parts)
