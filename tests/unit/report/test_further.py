"""The tables of gains and losses on the page."""

import polars as pl

from dphrl.report.page_tables import further_tables, page_tables
from dphrl.store.catalogue import SCHEMAS

GRPO = [("grpo", seed, 40, "d") for seed in (1, 2)]
RAREFIED = [(*key, "styles", m, 40, m / 2 + key[1] / 10, 0.0, 9.0) for key in GRPO for m in (2, 4, 8)]
RAREFIED += [("base", 0, 0, "d", "styles", 2, 40, 1.5, 1.0, 2.0), (*GRPO[0], "answers", 2, 40, 1.0, 1.0, 1.0)]
SPLIT = [(*key, "programs", part, 1.0, 0.0, 2.0) for key in GRPO for part in ("all", "right")]
MOVED = [("base_itself", 0, 0, "d", 0, 0, 90.0), ("base_itself", 0, 0, "d", 0, 25, 10.0)]
MOVED += [(*key, *cell) for key in GRPO for cell in ((0, 25, 30.0), (25, 0, 10.0), (100, 100, 60.0))]
CROSSED = [(*GRPO[0], 4, 2, None, 16), (*GRPO[1], None, None, None, 16)]
SAID = [("d", "grpo", "COLLAPSED", 8, -0.2, -0.3, -0.1, "COLLAPSED: coverage fell.")]
DRAWN = [("d", "grpo", t, 8, 0.7, -0.1, -0.2, 0.0, t > 1.5, True, 0.01, -0.02, 0.04) for t in (1.3, 1.6)]
ROWS = {
    "collapse": SAID,
    "hotter": DRAWN,
    "crossing": CROSSED,
    "rarefied": RAREFIED,
    "diversity_split": SPLIT,
    "transitions": MOVED,
}
TABLES = {name: SCHEMAS[name].frame(rows) for name, rows in ROWS.items()}


def shown() -> dict[str, pl.DataFrame]:
    return {name: frame for name, (_, _, frame) in further_tables(TABLES).items()}


def test_a_verdict_has_its_sentences() -> None:
    assert shown()["collapse"].rows() == [("GRPO", "d", "COLLAPSED: coverage fell.")]


def test_a_policy_that_is_drawn_hotter_has_a_row_for_each_temperature() -> None:
    found = shown()["hotter"].select("Temperature", "Solved", "Less the base [95 %]", "Judged on the other half [95 %]")
    assert found.rows() == [
        ("1.3", "pass@8 70.0 %", "-10.0 [-20.0, +0.0]", "not chosen"),
        ("1.6", "pass@8 70.0 %", "-10.0 [-20.0, +0.0]", "recovers: +1.0 [-2.0, +4.0]"),
    ]
    assert list(page_tables({}, TABLES, {})) == ["Drawn hotter", "Tables"]


def test_a_crossing_has_its_interval_for_each_seed() -> None:
    assert shown()["crossing"].rows() == [("GRPO", "4 [2, > 16]; > 16 [> 16, > 16]")]


def test_diversity_is_shown_for_one_number_of_right_answers() -> None:
    found = shown()["rarefied"]
    assert found.columns == ["Policy", "d styles in 4 (40 questions)"]
    assert found.rows() == [("GRPO", "2.15 ± 0.07")]


def test_parts_of_a_loss_are_columns() -> None:
    found = shown()["diversity_split"]
    assert found.columns == ["Policy", "d programs: All", "d programs: Right"]
    assert found.rows() == [("GRPO", "1.00 ± 0.00", "1.00 ± 0.00")]


def test_questions_that_move_are_next_to_those_that_move_by_chance() -> None:
    found = shown()["transitions"]
    assert found.columns == ["Policy", "d lower", "d higher"]
    assert found.rows() == [("Base against itself", "0.0", "10.0"), ("GRPO", "10.0 ± 0.0", "30.0 ± 0.0")]


def test_without_a_policy_to_compare_there_are_no_such_tables() -> None:
    alone = {name: table.filter(pl.col("method") != "grpo") for name, table in TABLES.items()}
    assert further_tables(alone) == {}
    assert page_tables({}, alone, {}) == {}
    tables = page_tables({}, TABLES, {"training_cost": pl.DataFrame({"method": ["grpo"]})})["Tables"]
    assert tables[-1][0] == "What a training costs"
