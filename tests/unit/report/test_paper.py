"""The paper's tables: layout, values of a run, and published values."""

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
from dphrl.report.paper import LAYOUTS, lay_out, names, read_laid_out, read_published
from dphrl.report.text_tables import Table, write_texts
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
    assert names(["sql", "math"]) == ["sql", "maths", "maths_mean"]
    assert names(["mine"]) == []


def by_policy(table: Table) -> dict[str, dict[str, str]]:
    return {row[0]: dict(zip(table.heads, row, strict=True)) for row in table.rows}


def test_rows_are_methods_and_columns_follow_the_order_of_the_datasets(tables):
    table = lay_out("sql", tables, TASKS)
    assert table.heads == [
        "Policy",
        *("in_domain Greedy", "in_domain Pass@8", "in_domain Pass@16"),
        *("cross Greedy", "cross Pass@8", "cross Pass@16"),
    ]
    assert list(by_policy(table)) == ["Base", "GRPO", "D_exp only", "DPH-F", "DPH-JS"]
    found = tables["headline"].filter(method="dph_f", dataset="cross", metric="pass@8")["value"][0]
    assert by_policy(table)["DPH-F"]["cross Pass@8"] == f"{100 * found:.1f}"


def test_over_several_seeds_a_cell_is_their_mean_and_standard_deviation(many_seeds):
    table = lay_out("sql", many_seeds, {"in_domain": "sql"})
    values = 100 * many_seeds["headline"].filter(method="grpo", metric="greedy")["value"]
    assert by_policy(table)["GRPO (3 seeds)"]["in_domain Greedy"] == f"{values.mean():.1f} ± {values.std():.1f}"


def test_k_is_the_published_one_or_the_largest_below_it(tables):
    ks = pl.concat(tables["passk"].with_columns(k=pl.col("k") * factor) for factor in (1, 32)).unique(
        ["method", "seed", "step", "dataset", "k"]
    )
    renamed = {name: table.with_columns(dataset=pl.lit("aime24")) for name, table in tables.items() if name != "passk"}
    for dataset, expected in (("aime24", 64), ("amc23", 16), ("math500", 8)):
        given = {**renamed, "passk": ks.filter(dataset="maths").with_columns(dataset=pl.lit(dataset))}
        assert lay_out("maths", given, {dataset: "math"}).heads == ["Policy", f"{dataset} Pass@{expected}"]
        few = {**given, "passk": given["passk"].filter(pl.col("k") <= 4)}
        assert lay_out("maths", few, {dataset: "math"}).heads == ["Policy", f"{dataset} Pass@4"]


def test_the_average_is_over_the_columns_and_needs_all_of_them(tables):
    both = {"maths": "math", "cross": "math"}
    for row in by_policy(lay_out("maths_mean", tables, both)).values():
        single = (float(row["maths Mean"]) + float(row["cross Mean"])) / 2
        assert float(row["Average"]) == pytest.approx(single, abs=0.06)
    lost = tables["headline"].filter(~((pl.col("method") == "grpo") & (pl.col("dataset") == "cross")))
    grpo = by_policy(lay_out("maths_mean", {**tables, "headline": lost}, both))["GRPO"]
    assert (grpo["cross Mean"], grpo["Average"]) == ("-", "-")


def test_published_values_are_separate_rows_under_the_same_columns_only(tables):
    sets = {"in_domain": "bird", "cross": "spider"}
    ours = {
        name: table.with_columns(pl.col("dataset").replace(sets))
        for name, table in tables.items()
        if name != "training"
    }
    published = read_published(FILE, "llama-sql")
    table = lay_out("sql", ours, {"bird": "sql", "spider": "sql"}, published)
    assert [row[0] for row in table.rows[4:7]] == [
        "DPH-JS",
        "Base (published: arXiv 2509.07430, Table 1)",
        "GRPO (published: arXiv 2509.07430, Table 1)",
    ]
    assert table.rows[5][1:] == ["42.4", "68.8", "75.0", "71.0", "90.9", "93.2"]
    few = {**ours, "passk": ours["passk"].filter(pl.col("k") <= 4)}
    assert lay_out("sql", few, {"bird": "sql"}, published).rows[5][1:] == ["42.4", "-"]
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
    table = lay_out("maths", named, {"math500": "math", "amc23": "math"}, published)
    base = by_policy(table)["Base (published: arXiv 2509.07430, Table 4)"]
    assert list(base.values())[1:] == ["81.2", "95.0", "-"]


def test_the_page_reads_the_table_from_its_file(tables, tmp_path):
    table = lay_out("sql", tables, TASKS)
    write_texts(tmp_path / "sql", table)
    assert read_laid_out("sql", tmp_path / "sql.csv") == table


def test_a_table_without_rows_is_laid_out_empty(tables):
    empty = {name: table.clear() for name, table in tables.items()}
    assert lay_out("sql", empty, TASKS).rows == []
