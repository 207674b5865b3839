"""The paper's tables: layout, values of a run, and published values."""

import csv
import io
from pathlib import Path
from typing import get_args

import polars as pl
import pytest
import yaml
from runs import ROOT

import dphrl.report.paper as module
from dphrl.config.blocks.evaluation import PublishedSetting
from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.report.contents import paper_tables
from dphrl.report.paper import LAYOUTS, lay_out, names, read_published, shown, texts
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.layout import Layout

FILE = Path(module.__file__).with_name("published.yaml")
PUBLISHED = yaml.safe_load(FILE.read_text(encoding="utf-8"))
TASKS = {"in_domain": "sql", "cross": "sql", "maths": "math"}


def test_the_published_settings_are_those_of_the_configuration():
    assert set(PUBLISHED) == set(get_args(PublishedSetting))
    for tables in PUBLISHED.values():
        assert {table["layout"] for table in tables} <= set(LAYOUTS)
    with pytest.raises(
        ValueError, match=r"published\.yaml: no setting 'nosuch'; evaluate\.published is one of llama-sql"
    ):
        read_published(FILE, "nosuch")


def test_published_rows_are_whole_and_their_averages_are_those_of_their_columns():
    averaged = 0
    for tables in PUBLISHED.values():
        for table in tables:
            for policy, values in table["rows"].items():
                assert len(values) == len(table["columns"]), policy
                assert all(value is None or 0 <= value <= 100 for value in values), policy
                if table["columns"][-1] == "average":
                    averaged += 1
                    assert sum(values[:-1]) / len(values[:-1]) == pytest.approx(values[-1], abs=0.0101), policy
    assert averaged == 9 + 2 * 5 + 2 * 6


def test_a_run_has_the_tables_of_its_tasks():
    assert names(["sql", "math"], keep_measured=True) == ["sql", "maths", "maths_mean", "keep_explore"]
    assert names(["sql"], keep_measured=False) == ["sql"]
    assert names(["mine"], keep_measured=True) == ["keep_explore"]


def test_rows_are_methods_and_columns_follow_the_order_of_the_datasets(tables):
    table = SCHEMAS["paper"].conform(lay_out("sql", tables, TASKS), "test")
    read = shown(table)
    assert read.columns == [
        "Policy",
        *("in_domain Greedy", "in_domain Pass@8", "in_domain Pass@16"),
        *("cross Greedy", "cross Pass@8", "cross Pass@16"),
    ]
    assert read["Policy"].to_list() == ["Base", "GRPO", "D_exp only", "DPH-F", "DPH-JS"]
    found = tables["headline"].filter(method="dph_f", dataset="cross", metric="pass@8")["value"][0]
    assert read.filter(Policy="DPH-F")["cross Pass@8"].item() == f"{100 * found:.1f}"
    assert set(table["source"]) == {"this run"}


def test_over_several_seeds_a_cell_is_their_mean_and_standard_deviation(many_seeds):
    table = lay_out("sql", many_seeds, {"in_domain": "sql"})
    values = many_seeds["headline"].filter(method="grpo", metric="greedy")["value"]
    cell = table.filter(policy="GRPO", metric="greedy")
    assert cell.select("seeds", "value", "sd").row(0) == (3, pytest.approx(values.mean()), pytest.approx(values.std()))
    row = shown(table).row(1)
    assert row[:2] == ("GRPO (3 seeds)", f"{100 * values.mean():.1f} ± {100 * values.std():.1f}")


def test_k_is_the_published_one_or_the_largest_below_it(tables):
    ks = pl.concat(tables["passk"].with_columns(k=pl.col("k") * factor) for factor in (1, 32)).unique(
        ["method", "seed", "step", "dataset", "k"]
    )
    renamed = {name: table.with_columns(dataset=pl.lit("aime24")) for name, table in tables.items() if name != "passk"}
    for dataset, expected in (("aime24", 64), ("amc23", 16), ("math500", 8)):
        given = {**renamed, "passk": ks.filter(dataset="maths").with_columns(dataset=pl.lit(dataset))}
        assert lay_out("maths", given, {dataset: "math"})["metric"].unique().to_list() == [f"pass@{expected}"]
        few = {**given, "passk": given["passk"].filter(pl.col("k") <= 4)}
        assert lay_out("maths", few, {dataset: "math"})["metric"].unique().to_list() == ["pass@4"]


def test_the_average_is_over_the_columns_and_needs_all_of_them(tables):
    both = {"maths": "math", "cross": "math"}
    table = lay_out("maths_mean", tables, both)
    for _, row in table.group_by("row"):
        single, average = row.filter(metric="mean"), row.filter(dataset="average")
        assert single.height == 2
        assert average["value"].item() == pytest.approx(single["value"].mean())
    lost = tables["headline"].filter(~((pl.col("method") == "grpo") & (pl.col("dataset") == "cross")))
    read = shown(lay_out("maths_mean", {**tables, "headline": lost}, both))
    assert read.filter(Policy="GRPO").select("cross Mean", "Average").row(0) == ("-", "-")


def test_keep_and_explore_have_the_base_against_itself(tables):
    read = shown(lay_out("keep_explore", tables, TASKS))
    assert read["Policy"].to_list() == ["Base against itself", "GRPO", "D_exp only", "DPH-F", "DPH-JS"]
    assert read.columns[1:3] == ["in_domain Keep", "in_domain Explore"]


def test_published_values_are_separate_rows_under_the_same_columns_only(tables):
    sets = {"in_domain": "bird", "cross": "spider"}
    ours = {
        name: table.with_columns(pl.col("dataset").replace(sets))
        for name, table in tables.items()
        if name != "training"
    }
    published = read_published(FILE, "llama-sql")
    table = SCHEMAS["paper"].conform(lay_out("sql", ours, {"bird": "sql", "spider": "sql"}, published), "test")
    read = shown(table)
    assert read["Policy"].to_list()[4:7] == [
        "DPH-JS",
        "Base (published: arXiv 2509.07430, Table 1)",
        "GRPO (published: arXiv 2509.07430, Table 1)",
    ]
    assert read.row(5)[1:] == ("42.4", "68.8", "75.0", "71.0", "90.9", "93.2")
    assert lay_out("keep_explore", ours, {"bird": "sql"}, published)["source"].unique().to_list() == ["this run"]
    few = {**ours, "passk": ours["passk"].filter(pl.col("k") <= 4)}
    assert shown(lay_out("sql", few, {"bird": "sql"}, published)).row(5) == (
        "Base (published: arXiv 2509.07430, Table 1)",
        "42.4",
        "-",
    )
    with pytest.raises(
        ValueError, match=r"Table 1 has bird greedy.*; this run has in_domain greedy.*name the datasets so"
    ):
        lay_out("sql", tables, TASKS, published)
    # The rules refuse it before the first job.
    config = read_config(ROOT / "config/config.yaml")
    named = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"published": "llama-sql"})})
    with pytest.raises(ConfigError, match=r"evaluate.published\n.*'llama-sql'\n.*these sets; .* has bird, spider"):
        paper_tables(Layout(named))


def test_a_published_average_over_other_sets_is_left_out(tables):
    named = {
        name: table.with_columns(pl.col("dataset").replace({"maths": "math500", "cross": "amc23"}))
        for name, table in tables.items()
        if name != "training"
    }
    published = read_published(FILE, "llama-math")
    read = shown(lay_out("maths", named, {"math500": "math", "amc23": "math"}, published))
    base = read.filter(Policy="Base (published: arXiv 2509.07430, Table 4)")
    assert base.row(0)[1:] == ("81.2", "95.0", "-")


def test_texts_hold_the_same_cells(tables):
    table = lay_out("sql", tables, TASKS)
    found = texts("sql", table)
    read = shown(table)
    assert list(csv.reader(io.StringIO(found["csv"]))) == [read.columns, *map(list, read.iter_rows())]
    assert found["md"].startswith(f"**{LAYOUTS['sql'].title}**\n\n| Policy ")
    assert "tables/paper/sql.parquet" in LAYOUTS["sql"].caption
    assert found["tex"].count(" \\\\\n") == 1 + read.height
    assert r"in\_domain Pass@8" in found["tex"]


def test_a_table_without_rows_is_laid_out_empty(tables):
    empty = {name: table.clear() for name, table in tables.items()}
    assert lay_out("keep_explore", empty, TASKS).is_empty()
    assert texts("keep_explore", lay_out("keep_explore", empty, TASKS))["csv"] == "Policy\n"
