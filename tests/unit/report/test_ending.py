"""The end of a run in the terminal: about ten lines, plain text, sets in the order of the configuration."""

import re
from pathlib import Path
from typing import Any

import pytest

from dphrl.config.load import read_config
from dphrl.report.ending import ending, results
from dphrl.store.layout import Layout
from dphrl.store.parquet import write_table

ROOT = Path(__file__).resolve().parents[3]


def test_a_row_per_method_with_the_largest_k_and_the_diversity_of_each_set(tables):
    lines = results(tables["headline"], ("in_domain", "cross", "maths")).splitlines()
    assert lines[0].split() == ["in_domain", "in_domain", "cross", "cross", "maths", "maths"]
    assert re.split(r"  +", lines[1].strip()) == ["Pass@16", "Styles", "Pass@16", "Styles", "Pass@16", "Right programs"]
    assert [line.split("  ")[0] for line in lines[3:]] == ["Base", "GRPO", "D_exp only", "DPH-F", "DPH-JS"]
    assert len(lines) <= 10
    assert "\\" not in "".join(lines)


def test_only_a_report_of_this_start_is_shown(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    layout = Layout(read_config(Path("config/config.yaml")))
    monkeypatch.chdir(tmp_path)
    page = f"{layout.root}/report/index.html"
    sums, headline = Path(layout.root, "SHA256SUMS"), Path(layout.path("headline"))
    assert ending(layout, {page}) == ""
    write_table(tables["headline"], "headline", headline, {})
    sums.touch()
    Path(page).parent.mkdir(parents=True)
    Path(page).touch()
    # The page and the audit of an earlier run are not those of this start.
    assert ending(layout, {str(headline)}) == ""
    assert "The audit" not in ending(layout, {page})
    assert "The audit: all files are as they were written" in ending(layout, {page, str(sums)})
