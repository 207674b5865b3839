"""Damage to the files of a run is named, with a remedy; names and texts of others are no commands of a terminal."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from raw_tables import flip_byte
from small_run import BASE, CANDIDATES, FINAL, INDEX, TENSORS, TRAINED, SmallRun

from dphrl.cli import main
from dphrl.report.audit import audit_run, summary
from dphrl.report.audit_files import AUDITED
from dphrl.store.files import sha256_file
from dphrl.store.manifest import SUMS, read_sums

MODEL, WEIGHTS, STATE = f"policies/{BASE}.json", f"policies/{BASE}/model.safetensors", f"states/{TRAINED}.json"
ROLLOUTS, VERDICTS = "draws/main/rollouts/train.presample", "draws/main/verdicts/train.presample"
REFINED = "draws/main/verdicts/train.refine/0.parquet"
EVAL, TEXT = "prompts/eval.parquet", "tables/headline.csv"
# Damage to one file of a run that is not finished. Texts, figures and whole files that are gone need SHA256SUMS.
SEALED = (MODEL, WEIGHTS, STATE, TENSORS, INDEX, FINAL, f"{ROLLOUTS}/1.parquet", f"timings/{FINAL}")

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def failures(root: Path) -> dict[str, list[str]]:
    """The texts of faults by file."""
    return audit_run(root).faults


def test_a_flipped_byte_in_any_file_of_a_finished_run_is_named_and_any_missing_file(finished: SmallRun) -> None:
    for path in (*read_sums(finished.root), SUMS):
        file = finished.root / path
        flip_byte(file)
        found = failures(finished.root)
        assert any(path in text and "snakemake" in text for texts in found.values() for text in texts), path
        # No other file is named, except by a changed line of the list.
        assert path == SUMS or found.keys() == {path}
        flip_byte(file)  # back
        file.rename(finished.root / ".away")
        assert "missing" in failures(finished.root)[path][0]
        (finished.root / ".away").rename(file)
    assert failures(finished.root) == {}


def test_a_missing_input_in_the_folder_of_a_manifest_is_named_alone(small_run: SmallRun) -> None:
    tokenizer = f"policies/{BASE}/tokenizer.json"
    source = {"paths": [tokenizer], "digest": sha256_file(small_run.root / tokenizer)}
    small_run.change_footer(EVAL, lambda footer: footer["inputs"].update(source=source))
    small_run.finish()
    (small_run.root / tokenizer).unlink()
    assert failures(small_run.root).keys() == {tokenizer}


def test_two_files_that_were_swapped_are_named(finished: SmallRun) -> None:
    files = [path for path in read_sums(finished.root) if path.endswith((".parquet", ".json", ".safetensors"))]
    for first, second in pairwise(files):
        if (finished.root / first).read_bytes() != (finished.root / second).read_bytes():
            _swap(finished, first, second)
            assert {first, second} <= failures(finished.root).keys()
            _swap(finished, first, second)


def _swap(run: SmallRun, first: str, second: str) -> None:
    for source, target in ((first, "between"), (second, first), ("between", second)):
        (run.root / source).rename(run.root / target)


def test_a_flipped_byte_is_named_without_the_list(small_run: SmallRun) -> None:
    for path in SEALED:
        flip_byte(small_run.root / path)
        assert failures(small_run.root).keys() == {path}
        flip_byte(small_run.root / path)  # back


FOREIGN = [
    ("tables/training.parquet", "tables/foreign.parquet"),
    (EVAL, "tables/prompts.parquet"),
    (EVAL, "prompts/a b.parquet"),
    (EVAL, "notes/eval.parquet"),
    (f"{ROLLOUTS}/0.parquet", f"{ROLLOUTS}/2.parquet"),
    (f"{ROLLOUTS}/0.parquet", "rollouts/base/train.presample/0.parquet"),
    (TENSORS, "draws/main/reference/more.safetensors"),
    (WEIGHTS, f"policies/{BASE}/more.safetensors"),
    (WEIGHTS, "states/grpo-s1/more.safetensors"),
    (MODEL, "policies/other.json"),
    (TEXT, "draws/main/foreign.md"),
    (EVAL, "prompts/\udcff.parquet"),
]


@pytest.mark.parametrize("end", [SmallRun.finish, lambda run: None])
def test_a_foreign_file_is_named(small_run: SmallRun, end: Callable[[SmallRun], None]) -> None:
    end(small_run)
    for source, target in FOREIGN:
        foreign = small_run.root / target
        foreign.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(small_run.root / source, foreign)
        (texts,) = failures(small_run.root).values()
        assert re.search("move it out of|delete it and", texts[0]), target
        foreign.unlink()


def test_files_that_people_keep_in_a_run_are_no_fault(finished: SmallRun) -> None:
    for name in ("notes.md", "logs/score.log", "tables/mine.csv", "notebooks/plot.ipynb", "figures/mine.svg"):
        (finished.root / name).parent.mkdir(exist_ok=True)
        (finished.root / name).write_text("mine")
    for name in (
        "tracking/offline/table.parquet",
        "logs/copy.parquet",
        "draws/main/partition/.ab12.tmp/0.parquet",
        "draws/main/rollouts/train.presample/.0.parquet.parts/0.parquet",
    ):
        (finished.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(finished.root / FINAL, finished.root / name)
    assert failures(finished.root) == {}


def test_what_an_earlier_configuration_left_is_no_fault(small_run: SmallRun) -> None:
    """Files at their own places that the run does not list, here a training; its damage does not matter either."""
    training = [small_run.root / "states/grpo-s1", small_run.root / "train/grpo-s1"]
    for place in training:
        shutil.move(place, small_run.root / ".away" / place.parent.name)
    small_run.finish()
    for place in training:
        shutil.move(small_run.root / ".away" / place.parent.name, place)
    flip_byte(small_run.root / f"states/{TRAINED}/rng.json")
    assert failures(small_run.root) == {}


def test_a_run_without_its_list_is_not_taken_for_unfinished(finished: SmallRun) -> None:
    (finished.root / SUMS).unlink()
    assert failures(finished.root).keys() == {SUMS}
    (finished.root / AUDITED).unlink()
    assert failures(finished.root) == {}


def test_damage_is_not_hidden_by_other_damage(finished: SmallRun) -> None:
    for path in (WEIGHTS, f"policies/{BASE}/tokenizer.json", FINAL, TEXT):
        flip_byte(finished.root / path)
    (finished.root / EVAL).unlink()
    assert failures(finished.root).keys() == {WEIGHTS, f"policies/{BASE}/tokenizer.json", FINAL, TEXT, EVAL}


# Faults that no job can see: they come from outside, or from an error of a job. (damage, file, a part of the message)
def _rows(path: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[SmallRun], None]:
    return lambda run: run.rewrite(path, change(run.read(path)))


def _first_wrong(verdicts: pl.DataFrame) -> pl.DataFrame:
    wrong = pl.col("prompt_id") == "train3"
    return verdicts.with_columns(correct=pl.col("correct") & ~wrong)


BETWEEN = {
    "an input of other content": (
        _rows("gold/eval.parquet", lambda rows: rows.head(2)),
        "verdicts/base/eval.evaluate/0.parquet",
        "made from other 'gold'",
    ),
    "an input that is gone": (
        lambda run: (run.root / f"{ROLLOUTS}/0.parquet").unlink(),
        f"{VERDICTS}/0.parquet",
        f"made from 'rollouts', but {ROLLOUTS}/0.parquet is not there",
    ),
    "a shard that is gone": (
        lambda run: (run.root / f"{ROLLOUTS}/0.parquet").unlink(),
        ROLLOUTS,
        "samples of its plan (2 per prompt) that it lacks: 6 (prompt_id train0, sample_index 0;",
    ),
    "fewer samples than the plan": (
        _rows(f"{ROLLOUTS}/1.parquet", lambda rows: rows[1:]),
        ROLLOUTS,
        "that it lacks: 1 (prompt_id train3, sample_index 0)",
    ),
    "other samples than the plan": (
        _rows(f"{ROLLOUTS}/1.parquet", lambda rows: rows.with_columns(pl.col("sample_index") + 1)),
        ROLLOUTS,
        "samples that its plan does not ask for: 3 (prompt_id train3, sample_index 2;",
    ),
    "samples twice": (
        lambda run: run.rewrite(f"{ROLLOUTS}/1.parquet", run.read(f"{ROLLOUTS}/0.parquet")),
        ROLLOUTS,
        "samples in more than one shard: 12",
    ),
    "a sample without a verdict": (
        _rows(f"{VERDICTS}/0.parquet", lambda rows: rows[1:]),
        f"{VERDICTS}/0.parquet",
        f"samples of {ROLLOUTS}/0.parquet without a verdict: 1 (prompt_id train0, sample_index 0)",
    ),
    "a prompt lost by the partition": (
        _rows(FINAL, lambda rows: rows.filter(pl.col("prompt_id") != "train2")),
        FINAL,
        f"prompts of {CANDIDATES} that it lacks: 1 (prompt_id train2)",
    ),
    "a prompt lost by the candidates": (
        _rows(CANDIDATES, lambda rows: rows[1:]),
        CANDIDATES,
        "prompts of prompts/train.parquet that it lacks: 1 (prompt_id train0)",
    ),
    "D_pef without an answer": (
        _rows(FINAL, lambda rows: rows.with_columns(reference_sample=pl.lit(None, pl.Int32))),
        FINAL,
        "D_pef prompts without a reference sample, or others with one: 4",
    ),
    "D_pef of no candidate": (
        _rows(FINAL, lambda rows: rows.with_columns(subset=pl.lit("pef"), reference_sample=pl.lit(0, pl.Int32))),
        FINAL,
        "D_pef prompts that were no candidate: 2 (prompt_id train1; prompt_id train4)",
    ),
    "a stored row that is wrong": (
        _rows(REFINED, _first_wrong),
        INDEX,
        "rows that were not judged right: 1 (prompt_id train3, sample_index 0)",
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_files_that_do_not_fit_together_are_named(small_run: SmallRun, name: str) -> None:
    damage, path, text = BETWEEN[name]
    damage(small_run)
    small_run.finish()
    assert any(text in message for message in failures(small_run.root)[path])


HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202egnp\x7f\u2066\rFAILED  nothing"


def _hostile_runs(run: SmallRun) -> Iterator[str]:
    """Put a hostile text into each place of a run that is printed; yield the files with it."""
    path = f"{ROLLOUTS}/0.parquet"
    run.rewrite(
        path, run.read(path).with_columns(text=pl.lit(HOSTILE), prompt_id=pl.format("{}" + HOSTILE, "prompt_id"))
    )
    yield path
    hostile = {HOSTILE: {"paths": [HOSTILE], "digest": HOSTILE}}
    run.change_footer(FINAL, lambda footer: footer.update(stage=HOSTILE, inputs=footer["inputs"] | hostile))
    yield FINAL
    (run.root / TEXT).write_text(HOSTILE)
    yield TEXT
    for name in (f"prompts/{HOSTILE.replace('/', '')}.parquet", "prompts/\udcff\x9b.md"):
        shutil.copyfile(run.root / TEXT, run.root / name)
        yield name


def test_no_text_of_a_run_reaches_the_terminal_as_a_command(
    small_run: SmallRun, capfd: pytest.CaptureFixture[str]
) -> None:
    for file in _hostile_runs(small_run):
        for command in ("show", "lineage"):
            main([command, f"{small_run.root}/{file}"])
            printed = "".join(capfd.readouterr())
            assert not CONTROL.search(printed), (command, file, CONTROL.findall(printed))
    assert main(["audit", str(small_run.root)]) == 1
    printed = capfd.readouterr().out
    assert not CONTROL.search(printed)
    # A line break of a text does not begin a line of the audit.
    assert not re.search(r"^FAILED  nothing", printed, re.MULTILINE)
    assert "␛" in printed
    assert not CONTROL.search(summary(audit_run(small_run.root)))


def test_damage_of_any_kind_ends_no_audit(finished: SmallRun) -> None:
    for path in (FINAL, MODEL, TENSORS, SUMS):
        file, before = finished.root / path, (finished.root / path).read_bytes()
        for content in (b"", b"PAR1", b"[]", b"[" * 1000, before[: len(before) // 2]):
            file.write_bytes(content)
            assert any(path in text for texts in failures(finished.root).values() for text in texts)
            for command in ("show", "lineage"):
                assert main([command, str(Path(finished.root, path))]) in (0, 2)
        file.write_bytes(before)
    os.symlink("nothing", finished.root / "draws/main/nothing.parquet")
    assert failures(finished.root) == {}
