"""Any artifact, shown as text."""

from pathlib import Path

import polars as pl
import pytest

from dphrl.cli import main
from dphrl.report.show import show
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table


def test_a_table_is_shown_with_footer_columns_head_and_a_whole_row(built: Path) -> None:
    text = show(built / "draws/main/rollouts/train.presample/0.parquet")
    for part in (
        '"stage": "sample"',
        "columns, 6 rows",
        "token_ids: List(Int32)",
        "first rows:",
        "row 0 in full:",
    ):
        assert part in text
    assert "token_ids: [5, 4, 1]" in text


def test_an_empty_table_is_shown(built: Path, tmp_path: Path) -> None:
    write_table(pl.DataFrame(schema=SCHEMAS["overlap"].columns), "overlap", tmp_path / "overlap.parquet", {})
    assert "columns, 0 rows" in show(tmp_path / "overlap.parquet")


def test_tensors_are_shown_with_types_and_shapes(built: Path) -> None:
    assert "logprobs: F32 (12,)" in show(built / "draws/main/reference/responses.safetensors")
    text = show(built / "policies/base/model.safetensors")
    assert '"format": "pt"' in text
    assert "lm_head.weight: F32 (10, 8)" in text


def test_text_is_shown_as_it_is(built: Path) -> None:
    assert show(built / "tables/headline.csv") == "| nothing |\n"


def test_the_command_shows_and_refuses_with_a_hint(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(built / "draws/main/partition/final.parquet")]) == 0
    assert "reference_sample" in capsys.readouterr().out
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1")
    for file, problem in (
        (damaged, "it is not the file that was written"),
        (tmp_path / "none.parquet", "no such file"),
        (tmp_path, "a folder; name a file in it"),
        (built / "policies/base", f"a folder; name {built}/policies/base.json"),
    ):
        assert main(["show", str(file)]) == 2
        assert problem in capsys.readouterr().err
