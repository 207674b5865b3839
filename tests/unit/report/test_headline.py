"""The headline table arranged for reading."""

import polars as pl

from dphrl.report.headline import datasets_in_order, explained, headline_markdown, headline_table


def test_rows_and_columns_are_in_reading_order(tables):
    found = headline_table(tables["headline"], ["cross", "maths"])
    assert [row[0] for row in found.rows] == [
        ("Base", ""),
        *((name, "seed 1, step 40") for name in ("GRPO", "D_exp only", "DPH-F", "DPH-JS")),
    ]
    assert found.heads[:5] == ["Policy", "cross Greedy", "cross Mean@16", "cross Pass@8", "cross Pass@16"]
    assert found.heads[5:7] == ["cross Styles", "cross Right constants"]
    assert not {"maths Styles", "maths Right constants"} & {*found.heads}


def test_a_checkpoint_has_the_number_of_its_training_and_no_step(tables):
    one = tables["headline"].filter(method="grpo")
    numbered = [one.with_columns(seed=pl.lit(seed, pl.Int32), step=pl.lit(0, pl.Int32)) for seed in (0, 1, 2)]
    found = headline_table(pl.concat(numbered), ["cross"])
    assert [row[0] for row in found.rows] == [("GRPO", ""), ("GRPO", "seed 1"), ("GRPO", "seed 2")]


def test_datasets_are_in_the_order_of_the_configuration(tables):
    assert datasets_in_order(tables["headline"], ("in_domain", "maths")) == ["in_domain", "maths", "cross"]


def test_cells_hold_value_and_interval(tables):
    found = headline_table(tables["headline"], ["cross"])
    base = dict(zip(found.heads, found.rows[0], strict=True))
    cells = tables["headline"].filter(method="base", dataset="cross").select("metric", "value", "low", "high")
    numbers = {metric: row for metric, *row in cells.iter_rows()}
    value, low, high = (100 * one for one in numbers["pass@8"])
    assert base["Pass@8"] == (f"{value:.1f}", f"[{low:.1f}, {high:.1f}]")
    value, low, high = numbers["distinct_styles"]
    assert base["Styles"] == (f"{value:.2f}", f"[{low:.2f}, {high:.2f}]")


def test_a_cell_that_was_not_measured_is_a_dash(tables):
    table = tables["headline"].filter(~((pl.col("method") == "dph_js") & (pl.col("metric") == "greedy")))
    assert headline_table(table, ["cross"]).rows[-1][1] == "-"


def test_each_column_is_explained_once():
    text = explained(["greedy", "pass@8", "pass@16", "distinct_styles"])
    assert [text.count(word) for word in ("reedy:", "pass@k:", "styles:")] == [1, 1, 1]


def test_markdown_has_a_table_for_each_dataset(tables):
    text = headline_markdown(tables["headline"])
    assert [line.strip("*") for line in text.splitlines() if line.startswith("**")] == ["cross", "in\\_domain", "maths"]
