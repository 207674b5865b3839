"""The published tables and the values of a run above them."""

from typing import get_args

import polars as pl
import pytest
import yaml
from runs import ROOT

from dphrl.config.blocks.evaluation import PublishedSetting
from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.report import contents
from dphrl.report.methods import METHODS
from dphrl.report.published import published_tables, read_published
from dphrl.store.layout import Layout

PUBLISHED = yaml.safe_load((ROOT / "workflow_scripts/dphrl/report/published.yaml").read_text(encoding="utf-8"))
SQL, MATHS = (read_published(name) for name in ("llama-sql", "llama-sql-maths"))


def test_published_rows_are_whole_and_their_averages_are_those_of_their_columns():
    assert set(PUBLISHED) == set(get_args(PublishedSetting))
    averaged = 0
    for table in (table for tables in PUBLISHED.values() for table in tables):
        for policy, values in table["rows"].items():
            assert policy in METHODS or policy.endswith(" (reported)")
            assert len(values) == len(table["columns"]), policy
            assert all(value is None or 0 <= value <= 100 for value in values), policy
            if table["columns"][-1] == "average":
                averaged += 1
                assert sum(values[:-1]) / len(values[:-1]) == pytest.approx(values[-1], abs=0.0101), policy
    assert averaged == 9 + 2 * 5 + 2 * 6


def named(tables, **datasets):
    """The published tables of a setting beside a run whose datasets have these names."""
    return [tables[name].with_columns(pl.col("dataset").replace(datasets)) for name in ("headline", "passk")]


def test_a_run_stands_above_the_published_rows_in_the_columns_that_it_has(tables):
    (table,) = published_tables(SQL, *named(tables, in_domain="bird"))
    assert table.heads == ["Policy", "bird greedy", "bird pass@8", "bird pass@16"]
    assert [row[0] for row in table.rows[:7]] == [
        *("Base", "GRPO", "D_exp only", "DPH-F", "DPH-JS"),
        *("Base, published", "GRPO, published"),
    ]
    solved = tables["passk"].filter(method="dph_f", dataset="in_domain", k=8)["value"].item()
    assert table.rows[3][2] == f"{100 * solved:.1f}"
    assert table.rows[5][1:] == ["42.4", "68.8", "75.0"]
    assert list(published_tables(SQL, *named(tables))) == []


def test_over_several_seeds_a_cell_is_their_mean_and_standard_deviation(many_seeds):
    (table,) = published_tables(SQL, *named(many_seeds, in_domain="bird"))
    values = 100 * many_seeds["headline"].filter(method="grpo", metric="greedy")["value"]
    assert table.rows[1][:2] == ["GRPO (3 seeds)", f"{values.mean():.1f} ± {values.std():.1f}"]


def test_an_average_needs_all_columns(tables):
    both = [{"source": "a table", "columns": ["maths mean", "cross mean", "average"], "rows": {"base": [1, 3, 2]}}]
    (table,) = published_tables(both, *named(tables))
    for row in table.rows:
        assert float(row[3]) == pytest.approx((float(row[1]) + float(row[2])) / 2, abs=0.11)
    (one,) = published_tables(both, *named(tables, cross="other"))
    assert one.heads == ["Policy", "maths mean"]


def test_a_setting_without_a_set_of_the_run_is_refused_before_the_first_job():
    config = read_config(ROOT / "config/config.yaml")
    named = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"published": "llama-sql"})})
    with pytest.raises(ConfigError, match=r"evaluate.published\n.*'llama-sql'\n.*these sets; .* has bird, spider"):
        contents.published(Layout(named))
