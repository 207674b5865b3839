"""Every figure from its table: drawn, the same bytes each time, and apart from the others."""

import json

import polars as pl
import pytest
import yaml
from runs import ROOT

from dphrl.config.load import load_config
from dphrl.report import contents, figures
from dphrl.store.layout import Layout

NAMES = figures.figures()
ORDER = ("in_domain", "cross", "maths")


def rows_of(name, table):
    """The rows that a figure holds."""
    return [row for data in figures.draw(name, table).to_dict()["datasets"].values() for row in data]


def test_a_figure_without_rows_is_not_planned():
    config = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    config["evaluate"]["claims"] = {}
    assert "styles" in contents.drawn(Layout(load_config(config)))
    config["evaluate"]["styles"] = {"sql": []}
    assert "styles" not in contents.drawn(Layout(load_config(config)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["tables", "many_seeds"])
def test_same_table_same_bytes(name, which, request):
    figure = figures.figure(name)
    table = request.getfixturevalue(which)[figure.table]
    chart, again = (figures.draw(name, rows) for rows in (table, table.sample(fraction=1.0, shuffle=True, seed=1)))
    assert figures.to_json(chart) == figures.to_json(again)
    assert figures.to_svg(chart) == figures.to_svg(again)
    spec = json.loads(figures.to_json(chart))
    assert spec["description"] == figure.caption
    assert f"tables/{figure.table}.parquet" in spec["description"]
    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_a_figure_holds_more_rows_than_altair_allows(tables):
    training = tables["training"]
    steps = pl.concat(training.with_columns(pl.col("step") + 1000 * i) for i in range(1 + 6000 // training.height))
    assert figures.to_json(figures.draw("training", steps)).count('"step"') > 5000


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_is_drawn_and_datasets_are_in_the_given_order(name, tables):
    svg = figures.to_svg(figures.draw(name, tables[figures.figure(name).table], ORDER))
    for label in ("GRPO", "D_exp only", "DPH-F", "DPH-JS"):
        assert f">{label}</text>" in svg
    places = [svg.index(f">{dataset}") for dataset in ORDER if f">{dataset}" in svg]
    assert len(places) > 1 or name == "training"
    assert places == sorted(places)


def test_the_gap_is_the_paired_difference_to_the_base(tables):
    rows = rows_of("gap", tables["comparisons"])
    shown = {(row["dataset"], row["metric"], row["policy"]): row["difference"] for row in rows}
    expected = tables["comparisons"].filter(dataset="cross", metric="pass@16", method="dph_f", against="base")
    assert shown["cross", "pass@16", "DPH-F"] == pytest.approx(expected["difference"][0], abs=1e-6)
    assert {metric for _, metric, _ in shown} == {"mean@16", "pass@8", "pass@16"}


def test_each_training_of_several_is_a_thin_line_of_pass_at_k(tables, many_seeds):
    def seeds(table):
        return {(row["policy"], row["seed"]) for row in rows_of("passk", table)}

    trained = {(method, seed) for method, seed in many_seeds["passk"].select("method", "seed").iter_rows()}
    drawn = seeds(many_seeds["passk"])
    assert {seed for policy, seed in drawn if policy == "GRPO"} == {-1} | {n for name, n in trained if name == "grpo"}
    assert {seed for policy, seed in drawn if policy == "Base"} == {-1}
    assert {seed for _, seed in seeds(tables["passk"])} == {-1}


def test_every_training_starts_at_the_base(tables):
    rows = rows_of("steps", tables["passk"])
    base = tables["passk"].filter(method="base", dataset="cross", k=8)["value"][0]
    starts = {row["policy"]: row["value"] for row in rows if row.get("step") == 0 and row["dataset"] == "cross"}
    assert starts == dict.fromkeys(("GRPO", "D_exp only", "DPH-F", "DPH-JS"), pytest.approx(base, abs=1e-6))
    # A set with fewer samples is drawn at its own largest k.
    fewer = tables["passk"].filter((pl.col("dataset") != "cross") | (pl.col("k") <= 4))
    assert {row["dataset"] for row in rows_of("steps", fewer)} == {row["dataset"] for row in rows}


def test_a_path_goes_from_the_base_through_mean_accuracy_and_coverage(tables):
    rows = rows_of("paths", tables["headline"])
    values = {(row[0], row[4]): row[5] for row in tables["headline"].filter(dataset="cross").rows()}
    path = [row for row in rows if (row["policy"], row["dataset"]) == ("DPH-F", "cross")]
    for row, method in zip(sorted(path, key=lambda row: row["step"]), ("base", "dph_f"), strict=True):
        expected = [values[method, "mean@16"], values[method, "pass@16"]]
        assert [row["mean"], row["pass"]] == pytest.approx(expected, abs=1e-6)


def test_a_method_without_a_label_keeps_its_name(tables):
    renamed = tables["passk"].with_columns(pl.col("method").replace({"dph_f": "my_method"}))
    assert ">my_method</text>" in figures.to_svg(figures.draw("passk", renamed))


def test_a_dataset_without_unsolved_questions_has_no_explore_panel(tables):
    table = tables["keep_explore"]
    nothing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in ("explore", "explore_low", "explore_high")]
    only = table.filter(pl.col("dataset") == "cross").with_columns(*nothing)
    svg = figures.to_svg(figures.draw("keep_explore", only))
    assert "cross · keep" in svg
    assert "cross · explore" not in svg


def test_a_panel_of_the_gap_holds_the_same_rank_of_k_of_every_set(tables):
    few = (
        tables["comparisons"]
        .filter(dataset="maths")
        .with_columns(
            pl.lit("few").alias("dataset"),
            pl.col("metric").replace({"mean@16": "mean@4", "pass@8": "pass@2", "pass@16": "pass@4"}),
        )
    )
    table = pl.concat([tables["comparisons"].filter(dataset="cross"), few])
    assert {(row["dataset"], row["metric"], row["panel"]) for row in rows_of("gap", table)} == {
        (dataset, metric, panel)
        for panel in ("mean@4, mean@16", "pass@2, pass@8", "pass@4, pass@16")
        for dataset, metric in zip(("few", "cross"), panel.split(", "), strict=True)
    }
    headers = figures.draw("gap", table).to_dict()["facet"]["sort"]
    assert headers == ["mean@4, mean@16", "pass@2, pass@8", "pass@4, pass@16"]
