"""The headline table as Markdown and CSV."""

import csv
import io
import re

import polars as pl

from dphrl.report.headline import Headline, headline_csv, headline_markdown, latex_table, main_metrics
from dphrl.report.render import environment


def test_rows_and_columns_in_reading_order(tables):
    head, *body = csv.reader(io.StringIO(headline_csv(tables["headline"])))
    assert [row[0] for row in body] == [
        "Base",
        "GRPO (seed 1, step 40)",
        "D_exp only (seed 1, step 40)",
        "DPH-F (seed 1, step 40)",
        "DPH-JS (seed 1, step 40)",
    ]
    assert head[:5] == ["Policy", "cross Greedy", "cross Mean@16", "cross Pass@8", "cross Pass@16"]
    assert head[5:8] == ["cross Styles", "cross Right programs", "cross Right constants"]
    assert not {"maths Styles", "maths Right constants"} & {*head}


def test_a_checkpoint_has_the_number_of_its_training_and_no_step(tables):
    one = tables["headline"].filter(method="grpo")
    numbered = [one.with_columns(seed=pl.lit(seed, pl.Int32), step=pl.lit(0, pl.Int32)) for seed in (0, 1, 2)]
    found = Headline(pl.concat(numbered))
    assert [found.policy_name(policy) for policy in found.policies] == ["GRPO", "GRPO (seed 1)", "GRPO (seed 2)"]


def test_datasets_are_in_the_order_of_the_configuration(tables):
    assert Headline(tables["headline"], ("in_domain", "maths")).datasets == ["in_domain", "maths", "cross"]


def test_a_narrow_screen_has_the_largest_k_and_the_styles():
    metrics = ["greedy", "mean@16", "pass@8", "pass@16", "distinct_styles", "constants"]
    assert main_metrics(metrics) == ["pass@16", "distinct_styles"]
    assert main_metrics(["greedy"]) == ["greedy"]


def test_a_dataset_without_styles_shows_the_diversity_that_it_has():
    assert main_metrics(["pass@8", "pass@16", "distinct_right_answers"]) == ["pass@16", "distinct_right_answers"]


def test_cells_hold_value_and_interval(tables):
    table = tables["headline"]
    shown = Headline(table)
    base = ("base", 0, 0)
    row = table.filter((pl.col("method") == "base") & (pl.col("dataset") == "cross")).select(
        "metric", "value", "low", "high"
    )
    cells = {metric: (value, low, high) for metric, value, low, high in row.iter_rows()}
    value, low, high = (100 * one for one in cells["pass@8"])
    assert shown.cell(base, "cross", "pass@8") == (f"{value:.1f}", f"[{low:.1f}, {high:.1f}]")
    value, low, high = cells["distinct_styles"]
    assert shown.cell(base, "cross", "distinct_styles") == (f"{value:.2f}", f"[{low:.2f}, {high:.2f}]")
    assert shown.cell(base, "cross", "pass@99") is None


def test_markdown_has_the_same_cells_and_escapes_names(tables):
    table = tables["headline"].with_columns(pl.col("method").replace({"dph_f": "a|b_c"}))
    text = headline_markdown(table)
    rows = list(csv.reader(io.StringIO(headline_csv(table))))
    datasets = re.findall(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
    assert datasets == [name.replace("_", "\\_") for name in Headline(table).datasets]
    base = [line for line in text.splitlines() if line.startswith("| Base ")]
    assert [cell.strip() for line in base for cell in line.strip("| ").split(" | ")[1:]] == rows[1][1:]
    assert text.count("| a\\|b\\_c (seed 1, step 40) ") == len(datasets)
    widths = {len(line) for line in text.split("\n\n")[1].splitlines()}
    assert len(widths) == 1


def test_a_cell_that_was_not_measured_is_a_dash(tables):
    table = tables["headline"].filter(~((pl.col("method") == "dph_js") & (pl.col("metric") == "greedy")))
    assert list(csv.reader(io.StringIO(headline_csv(table))))[-1][1] == "-"


HOSTILE = "</td><script>alert(1)</script>&\"'"


def test_html_escapes_heads_cells_and_caption():
    frame = pl.DataFrame({"name": [HOSTILE], HOSTILE: [None], "x": [0.123456]})
    text = environment().get_template("macros.html.j2").module.table(HOSTILE, frame)
    assert "<script>" not in text
    assert text.count("&lt;script&gt;") == 3
    assert '<th scope="col">x</th>' in text
    assert '<th scope="row">&lt;/td&gt;' in text
    assert "<td>-</td><td>0.1235</td>" in text


def test_latex_escapes_what_it_would_read():
    text = latex_table([["a_b", "50 %"], [r"\input{x} $1$ #&~^", "1 ± 2\n3"]], "50 % <of>")
    assert r"a\_b & 50 \% \\" in text
    assert r"\textbackslash{}input\{x\} \$1\$ \#\&\textasciitilde{}\textasciicircum{} & 1 $\pm$ 2 3 \\" in text
    assert r"\caption{50 \% \textless{}of\textgreater{}}" in text
    assert r"\begin{tabular}{lr}" in text
