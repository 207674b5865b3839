"""Each fault of tests/support/faults.py is named, with a remedy; it hides no other and its text is no command."""

import re
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from faults import (
    CHANGED,
    CONTROL,
    EVAL,
    FAULTS,
    FINAL,
    MODEL,
    SHARD,
    STATE,
    TEXT,
    TRAINED,
    TRAINING,
    failures,
    put,
)
from raw_tables import flip_byte

from dphrl.audit.run import AuditError, audit_run, require_passed, summary
from dphrl.cli import main

EVALUATED = f"evaluation/{TRAINED}/eval.parquet"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_can_be_shown_and_hides_no_other(
    small_run: Any, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[name]
    if fault.recorded:
        small_run.record()
    fault.damage(small_run)
    flip_byte(small_run.root / TRAINING)
    table = audit_run(small_run.root)
    found = {row["artifact"]: row["failed"] for row in table.iter_rows(named=True) if row["failed"]}
    assert any(CHANGED in text for text in found.pop(TRAINING))
    for path, texts in fault.named.items():
        for text in (texts,) if isinstance(texts, str) else texts or ("",):
            assert any(text in message for message in found[path]), found
    assert not fault.alone or found.keys() == fault.named.keys(), found
    # Sound artifacts were still read.
    assert dict(table.select("artifact", "rows").iter_rows())["evaluation/base/eval.parquet"] == 3
    for path in (*fault.named, STATE, EVALUATED):
        for command in ("show", "lineage"):
            assert main(["audit", command, str(small_run.root / path)]) in (0, 2)
    assert not CONTROL.search(summary(table) + "".join(capfd.readouterr()))


HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202egnp\x7f\u2066\x00\rFAILED  nothing"


def hostile_runs(run: Any) -> Iterator[str]:
    """Put a hostile text into each place of a run that is printed; yield the files with it."""
    rows = run.read(SHARD).with_columns(text=pl.lit(HOSTILE), prompt_id=pl.format("{}" + HOSTILE, "prompt_id"))
    run.rewrite(SHARD, rows)
    yield SHARD
    hostile = {"paths": [HOSTILE], "digest": HOSTILE}
    footer = run.footer(FINAL)
    run.set_footer(FINAL, footer | {"stage": HOSTILE, "inputs": footer["inputs"] | {HOSTILE: hostile}})
    yield FINAL
    footer = run.footer(STATE)
    run.set_footer(STATE, footer | {"config": {HOSTILE: HOSTILE}, "libraries": {HOSTILE: HOSTILE}})
    yield STATE
    run.set_footer(MODEL, footer | {"files": {HOSTILE: {"size": 1, "sha256": HOSTILE}}})
    yield MODEL
    (run.root / TEXT).write_text(HOSTILE)
    yield TEXT
    name = f"prompts/{HOSTILE.replace(chr(0), '').replace('/', '')}.parquet"
    put(run, EVAL, name)
    yield name
    put(run, TEXT, "prompts/\udcff\x9b.md")
    yield "prompts/\udcff\x9b.md"


def test_no_text_of_a_run_reaches_the_terminal_as_a_command(small_run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for file in hostile_runs(small_run):
        for command in ("show", "lineage"):
            main(["audit", command, f"{small_run.root}/{file}"])
            printed = "".join(capfd.readouterr())
            assert not CONTROL.search(printed), (command, file, CONTROL.findall(printed))
    assert main(["audit", str(small_run.root)]) == 1
    printed = capfd.readouterr().out
    assert not CONTROL.search(printed)
    # A line break of a text does not begin a line of the audit.
    assert not re.search(r"^FAILED  nothing", printed, re.MULTILINE)
    assert "␛" in printed
    with pytest.raises(AuditError) as error:
        require_passed(audit_run(small_run.root))
    assert not CONTROL.search(str(error.value))


def test_what_people_keep_in_a_run_is_not_checked(small_run: Any) -> None:
    for name in ("notes.md", "logs/score.log", "tables/mine.csv", "notebooks/plot.ipynb"):
        (small_run.root / name).parent.mkdir(exist_ok=True)
        (small_run.root / name).write_text("mine")
    put(small_run, FINAL, "tracking/offline/files/media/table.parquet")
    put(small_run, FINAL, "logs/copy.parquet")
    put(small_run, FINAL, "draws/main/partition/.ab12.tmp/0.parquet")
    put(small_run, FINAL, "draws/main/rollouts/train.presample/.0.parquet.parts/0.parquet")
    assert failures(small_run.root) == {}
    small_run.record()
    (small_run.root / "notes.md").write_text("mine too")
    assert failures(small_run.root) == {}
