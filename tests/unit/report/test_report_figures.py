"""Every figure from its table: drawn, the same bytes each time, and apart from the others."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import dphrl
from dphrl.artifacts import code_digest
from dphrl.report import figures

NAMES = ["keep_explore", "passk", "styles", "training"]


def test_the_figures():
    assert figures.figures() == NAMES
    for name in NAMES:
        assert f"tables/{figures.table(name)}.parquet" in figures.caption(name)
    with pytest.raises(KeyError, match="no figure 'nosuch'; there are keep_explore"):
        figures.draw("nosuch", pl.DataFrame())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["tables", "many_seeds"])
def test_same_table_same_bytes(name, which, request):
    table = request.getfixturevalue(which)[figures.table(name)]
    chart, again = figures.draw(name, table), figures.draw(name, table.sample(fraction=1.0, shuffle=True, seed=1))
    assert figures.to_json(chart) == figures.to_json(again)
    assert figures.to_svg(chart) == figures.to_svg(again)
    spec = json.loads(figures.to_json(chart))
    assert spec["description"] == figures.caption(name)
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_is_drawn(name, tables):
    svg = figures.to_svg(figures.draw(name, tables[figures.table(name)]))
    assert svg.startswith("<svg")
    for label in ("GRPO", "D_exp only", "DPH-F", "DPH-JS"):
        assert f">{label}</text>" in svg


@pytest.mark.parametrize("name", NAMES)
def test_empty_tables_are_refused(name, tables):
    with pytest.raises(ValueError, match=f"figure {name}"):
        figures.draw(name, tables[figures.table(name)].clear())


def test_a_method_has_one_colour_in_all_figures(tables):
    for name in ("passk", "keep_explore", "training"):
        svg = figures.to_svg(figures.draw(name, tables[name]))
        assert "#d55e00" in svg
        assert "#0072b2" in svg


def test_unknown_methods_and_metrics(tables):
    renamed = tables["passk"].with_columns(pl.col("method").replace({"dph_f": "my_method"}))
    assert ">my_method</text>" in figures.to_svg(figures.draw("passk", renamed))
    with pytest.raises(ValueError, match="none of the metrics reward"):
        figures.draw("training", tables["training"].with_columns(metric=pl.lit("strange")))


def test_mean_distinct_styles_are_labelled(tables):
    svg = figures.to_svg(figures.draw("styles", tables["styles"]))
    for mean in tables["styles"]["distinct_styles"].unique():
        assert f">{round(mean, 1)} styles</text>" in svg


def test_a_dataset_without_unsolved_questions_has_no_explore_panel(tables):
    table = tables["keep_explore"]
    nothing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in ("explore", "explore_low", "explore_high")]
    only = table.filter(pl.col("dataset") == "cross").with_columns(*nothing)
    svg = figures.to_svg(figures.draw("keep_explore", only))
    assert "cross · keep" in svg
    assert "cross · explore" not in svg


def test_a_figure_depends_on_no_other(tables, tmp_path):
    """A broken module leaves the other figures' bytes and code digests as they are."""
    package = Path(dphrl.__file__).parent
    copy = tmp_path / "dphrl"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, copy, ignore=ignored)
    (copy / "report" / "figures" / "styles.py").write_text("raise RuntimeError('must not be imported')\n")
    tables["passk"].write_parquet(tmp_path / "passk.parquet")
    code = (
        "import sys, polars as pl; sys.path.insert(0, sys.argv[1])\n"
        "from dphrl.artifacts import code_digest; from dphrl.report.figures import draw, module, to_json\n"
        "sys.stdout.write(code_digest([module('passk')]) + to_json(draw('passk', pl.read_parquet(sys.argv[2]))))\n"
    )
    command = [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{code}"]
    shown = subprocess.run(
        [*command, str(tmp_path), str(tmp_path / "passk.parquet")], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    expected = code_digest([figures.module("passk")]) + figures.to_json(figures.draw("passk", tables["passk"]))
    assert shown.stdout == expected
