"""The first screen of the page: the result, and a row for each policy."""

from __future__ import annotations

import polars as pl
import pytest

from dphrl.evaluation.diagnosis import EXIT
from dphrl.report.findings import Overview, overview, result
from dphrl.store.catalogue import SCHEMAS

WORDS = {"grpo": "COLLAPSED", "exp_only": "CANNOT TELL", "dph_f": "NOT COLLAPSED", "dph_js": "NOT COLLAPSED"}


@pytest.fixture(scope="module")
def found(tables: dict[str, pl.DataFrame]) -> Overview:
    rows = [("cross", method, word, 8, -0.06, -0.08, -0.04, "") for method, word in WORDS.items()]
    return overview({**tables, "collapse": SCHEMAS["collapse"].frame(rows)}, "cross")


def test_a_row_has_the_numbers_of_its_tables_at_one_k(found: Overview, tables: dict[str, pl.DataFrame]) -> None:
    assert (found.dataset, found.k) == ("cross", 8)
    assert [row.name for row in found.results] == ["Base", "GRPO", "D_exp only", "DPH-F", "DPH-JS"]
    grpo, here = found.results[1], {"method": "grpo", "dataset": "cross"}
    solved, kept = (tables[name].filter(k=8, **here) for name in ("passk", "keep_explore"))
    mean = tables["headline"].filter(metric="mean@16", **here)
    expected = [f"{100 * column.item():.1f}" for column in (mean["value"], solved["value"], kept["keep"])]
    assert [grpo.accuracy, grpo.solved, grpo.kept] == expected
    assert grpo.interval == f"[{100 * solved['low'].item():.1f}, {100 * solved['high'].item():.1f}]"
    assert (grpo.word, grpo.difference, grpo.trainings) == ("COLLAPSED", "-6.0 [-8.0, -4.0]", "1")


def test_the_base_keeps_what_a_second_draw_keeps(found: Overview, tables: dict[str, pl.DataFrame]) -> None:
    itself = tables["keep_explore"].filter(method="base_itself", dataset="cross", k=8)["keep"].item()
    base = found.results[0]
    assert (base.kept, base.word, base.trainings) == (f"{100 * itself:.1f}", "", "-")


def test_several_trainings_have_a_mean_and_a_range(many_seeds: dict[str, pl.DataFrame]) -> None:
    rows = overview({**many_seeds, "collapse": SCHEMAS["collapse"].frame()}, "in_domain").results
    values = 100 * many_seeds["passk"].filter(method="grpo", k=16)["value"]
    (grpo,) = [row for row in rows if row.method == "grpo"]
    assert (grpo.solved, grpo.trainings) == (f"{values.mean():.1f}", "3")
    assert grpo.interval == f"{values.min():.1f} to {values.max():.1f}"


def test_the_result_is_in_the_words_of_the_diagnosis(found: Overview) -> None:
    text = result(found)
    assert text.startswith("Coverage of cross collapsed under GRPO; it was kept under DPH-F and DPH-JS; it cannot ")
    base, grpo = found.results[:2]
    assert f"With 8 tries the base solves {base.solved} % of the questions, GRPO {grpo.solved}." in text


@pytest.mark.parametrize("word", EXIT)
def test_each_word_of_the_diagnosis_has_a_sentence(word: str, found: Overview) -> None:
    judged = [row._replace(word=word if row.method == "grpo" else "") for row in found.results]
    assert "GRPO" in result(found._replace(results=judged))


def test_without_a_diagnosis_there_is_no_result(found: Overview) -> None:
    assert result(found._replace(results=[row._replace(word="") for row in found.results])) == ""
