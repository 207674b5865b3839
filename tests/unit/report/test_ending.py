"""The end of a run in the terminal: five short lines of plain text."""

from pathlib import Path

import polars as pl
import pytest

from dphrl.config.load import read_config
from dphrl.report.contents import ending
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.layout import Layout
from dphrl.store.parquet import write_table

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def layout(tables: dict[str, pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A finished run in the current folder, with the tables that its end needs."""
    monkeypatch.chdir(ROOT)
    made = Layout(read_config(Path("config/config.yaml")))
    monkeypatch.chdir(tmp_path)
    words = [("in_domain", name, "COLLAPSED", 8, -0.1, -0.2, -0.05, "") for name in ("grpo", "dph_f", "dph_js")]
    frames = {**tables, "collapse": SCHEMAS["collapse"].frame(words)}
    for name in ("headline", "passk", "keep_explore", "collapse"):
        write_table(frames[name], name, Path(made.root, f"tables/{name}.parquet"), {})
    for name in ("report/index.html", "SHA256SUMS"):
        Path(made.root, name).parent.mkdir(exist_ok=True)
        Path(made.root, name).touch()
    return made


def test_the_end_has_five_lines_that_fit_a_terminal(layout: Layout) -> None:
    lines = (
        ending(layout, {f"{layout.root}/report/index.html", f"{layout.root}/SHA256SUMS"}, 432.0).strip().splitlines()
    )
    assert [line.split(":")[0] for line in lines] == ["Result", "Report", "Audit", "Next", "Time"]
    assert max(map(len, lines)) <= 100
    assert "collapsed under GRPO, DPH-F and DPH-JS" in lines[0]
    assert lines[-1].endswith("7 min")


def test_a_long_result_is_cut(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphrl.report.contents.result", lambda _: "many methods " * 20)
    shown = ending(layout, {f"{layout.root}/report/index.html"}, 1.0).splitlines()
    assert max(map(len, shown)) <= 100
    assert shown[1].endswith(" ...")


def test_only_a_report_of_this_start_is_shown(layout: Layout) -> None:
    assert ending(layout, {f"{layout.root}/tables/headline.parquet"}, 1.0) == ""
    assert "not part of this target" in ending(layout, {f"{layout.root}/report/index.html"}, 1.0)
