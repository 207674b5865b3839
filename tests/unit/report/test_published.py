"""Published values as hollow points: whose they are, where they are drawn, and that other runs are not changed."""

from pathlib import Path

import polars as pl
import pytest
from experiments import NAMES, experiment

import dphrl.report.paper as module
from dphrl.report import figures
from dphrl.report.paper import published_points

FILE = Path(module.__file__).with_name("published.yaml")
LABEL = "published (arXiv 2509.07430)"


def renamed(table, **datasets):
    return table.filter(pl.col("dataset").is_in(list(datasets))).with_columns(pl.col("dataset").replace(datasets))


def drawn(name, table, published, methods=None):
    """The published rows of a figure, and what the figure says."""
    chart = figures.draw(name, table, ("bird", "spider"), published, methods)
    specification = chart.to_dict()
    rows = [row for data in specification["datasets"].values() for row in data]
    return [row for row in rows if row.get("source")], specification, figures.to_svg(chart)


@pytest.fixture(scope="module")
def points():
    return published_points(FILE, "llama-sql")


@pytest.mark.parametrize("setting", ["llama-sql", "omnisql-sql", "llama-sql-maths", "llama-math", "qwen-math"])
def test_every_published_row_of_a_method_is_that_of_an_experiment(setting):
    found = published_points(FILE, setting)
    configs = [config for config in map(experiment, NAMES) if config.evaluate.published == setting]
    ours = {"base", *(method for config in configs for method in config.methods)}
    # The rows of alpha in Table 3 belong to no experiment of the mathematics.
    assert {name for name in found["method"] if not name.startswith("alpha")} <= ours
    assert set(found["dataset"]) <= set(experiment(setting).evaluate.datasets)
    assert found["value"].is_between(0, 1).all()


def test_a_point_is_the_figure_of_the_table(points):
    one = {"method": "js_definition_0_2", "dataset": "spider", "metric": "pass@16"}
    assert points.filter(**one)["value"].to_list() == [0.867]
    assert points.filter(method="dph_js", dataset="bird", metric="greedy")["value"].to_list() == [0.628]


def test_pass_at_k_has_the_published_k_of_the_methods_that_are_there(tables, points):
    table = renamed(tables["passk"], in_domain="bird", cross="spider")
    found, specification, svg = drawn("passk", table, points)
    assert {(row["policy"], row["k"]) for row in found} == {
        (policy, k) for policy in ("Base", "GRPO", "DPH-F", "DPH-JS") for k in (8, 16)
    }
    (one,) = [row for row in found if (row["policy"], row["k"], row["dataset"]) == ("DPH-F", 16, "bird")]
    assert (one["value"], one["low"]) == (0.716, None)
    assert LABEL in svg
    assert specification["description"].endswith(f"Hollow points: {LABEL}.")


def test_a_gap_is_to_the_published_base(tables, points):
    table = renamed(tables["comparisons"], in_domain="bird", cross="spider")
    found, _, svg = drawn("gap", table, points)
    assert {row["metric"] for row in found} == {"pass@8", "pass@16"}
    (one,) = [row for row in found if (row["policy"], row["metric"], row["dataset"]) == ("GRPO", "pass@16", "spider")]
    assert one["difference"] == pytest.approx(0.806 - 0.932)
    assert LABEL in svg


def test_a_published_mean_is_drawn_next_to_ours_whatever_its_n(tables):
    table = renamed(tables["comparisons"], maths="math500")
    found, _, _ = drawn("gap", table, published_points(FILE, "llama-math"))
    (one,) = [row for row in found if (row["policy"], row["panel"]) == ("DPH-JS", "mean@16")]
    assert one["difference"] == pytest.approx(0.484 - 0.465)


def test_the_weights_of_js_have_theirs(tables, points):
    methods = {"js_0_01": {"divergence": "js", "eta": 0.01}, "dph_js": {"divergence": "js", "eta": 0.2}}
    table = renamed(tables["headline"], in_domain="bird", cross="spider")
    table = table.with_columns(pl.col("method").replace({"dph_f": "js_0_01"}))
    found, _, svg = drawn("eta", table, points, methods)
    shown = {(row["eta"], row["panel"]): row["value"] for row in found}
    assert shown[0.01, "bird · greedy"] == 0.598
    assert shown[0.2, "spider · pass@16"] == 0.841
    assert len(found) == 8
    assert LABEL in svg


@pytest.mark.parametrize("name", figures.figures())
def test_without_counterparts_a_figure_is_as_it_was(name, tables, points, weights):
    assert figures.figure(name).published == (name in ("eta", "gap", "passk"))
    table = tables[figures.figure(name).table]
    alone = figures.draw(name, table, methods=weights)
    assert figures.to_json(figures.draw(name, table, published=points, methods=weights)) == figures.to_json(alone)
    assert LABEL not in figures.to_json(alone)


def test_a_panel_of_the_gap_holds_the_same_rank_of_k_of_every_set(tables):
    few = renamed(tables["comparisons"], maths="few").with_columns(
        pl.col("metric").replace({"mean@16": "mean@4", "pass@8": "pass@2", "pass@16": "pass@4"})
    )
    table = pl.concat([renamed(tables["comparisons"], cross="cross"), few])
    rows = [row for data in figures.draw("gap", table).to_dict()["datasets"].values() for row in data]
    assert {(row["dataset"], row["metric"], row["panel"]) for row in rows} == {
        (dataset, metric, panel)
        for panel in ("mean@4, mean@16", "pass@2, pass@8", "pass@4, pass@16")
        for dataset, metric in zip(("few", "cross"), panel.split(", "), strict=True)
    }
    headers = figures.draw("gap", table).to_dict()["facet"]["sort"]
    assert headers == ["mean@4, mean@16", "pass@2, pass@8", "pass@4, pass@16"]
