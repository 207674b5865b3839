"""The tables of the page below its first screen, and their counts."""

import polars as pl
import pytest

from dphrl.report.counts import count_rows, training_use
from dphrl.report.page_tables import costs, data_table, diagnoses, hotter_table, variety_table, where_lost
from dphrl.store.catalogue import SCHEMAS

GRPO = [("grpo", seed, 40, "d") for seed in (1, 2)]
RAREFIED = [(*key, "styles", m, 40, m / 2 + key[1] / 10, 0.0, 9.0) for key in GRPO for m in (2, 4, 8)]
RAREFIED += [("base", 0, 0, "d", "styles", 4, 40, 1.5, 1.0, 2.0), (*GRPO[0], "answers", 2, 40, 1.0, 1.0, 1.0)]


def test_diagnoses_are_in_the_order_of_the_sets_and_of_the_methods() -> None:
    said = [
        (dataset, method, "COLLAPSED", 8, -0.2, -0.3, -0.1, f"{method} on {dataset}")
        for dataset, method in (("a", "dph_f"), ("a", "grpo"), ("z", "grpo"))
    ]
    (table,) = diagnoses(SCHEMAS["collapse"].frame(said), ["z", "a"])
    assert [row[2] for row in table.rows] == ["grpo on z", "grpo on a", "dph_f on a"]
    assert diagnoses(SCHEMAS["collapse"].frame(), []) == []


def test_a_policy_that_is_drawn_hotter_has_a_row_for_each_temperature() -> None:
    drawn = [("d", "grpo", t, 8, 0.7, -0.1, -0.2, 0.0, t > 1.5, True, 0.01, -0.02, 0.04) for t in (1.3, 1.6)]
    (table,) = hotter_table(SCHEMAS["hotter"].frame(drawn))
    assert [row[2:] for row in table.rows] == [
        ("1.3", "pass@8 70.0 %", "-10.0 [-20.0, +0.0]", "not chosen"),
        ("1.6", "pass@8 70.0 %", "-10.0 [-20.0, +0.0]", "recovers: +1.0 [-2.0, +4.0]"),
    ]


def test_variety_is_shown_for_one_number_of_right_answers_as_means_over_trainings() -> None:
    (table,) = variety_table(SCHEMAS["rarefied"].frame(RAREFIED), ["d"])
    assert table.heads == ["", "Base", "GRPO"]
    assert table.rows == [[("d: styles", "of 4 right answers to each of 40 questions"), "1.50", "2.15"]]


def test_every_row_of_a_dataset_is_accounted_for() -> None:
    prepared = (
        pl.DataFrame({"prompt_id": ["a", "b", "c"]}),
        pl.DataFrame({"reason": ["duplicate", "duplicate", "malformed"]}),
        pl.DataFrame({"kept": [True, True, False], "reason": [None, "order-ambiguous", "empty"]}),
    )
    shared = pl.DataFrame({"dataset": ["test", "questions"], "kind": ["exact", "normalised"]})
    data = count_rows({"questions": prepared}, shared)
    (row,) = data.rows(named=True)
    assert row["rows"] == row["prompts"] + row["duplicate"] + row["overlong"] + row["malformed"] == 6
    (cells,) = data_table(data).rows
    found = "1 empty, 1 order ambiguous"
    assert cells == ["questions", "6", "3", "2", "2 duplicate, 1 malformed", found, "1 normalised"]


def test_what_was_used_is_added_up_over_steps_and_averaged_over_trainings() -> None:
    rows = [
        *(("dapo", seed, step, "prompts", 4.0) for seed in (1, 2) for step in (1, 2)),
        *(("dapo", seed, step, "drawn_tokens", 100.0 * seed) for seed in (1, 2) for step in (1, 2)),
        ("dph_f", 1, 1, "prompts", 3.0),
        ("dph_f", 1, 1, "stored_tokens", 7.0),
        ("dph_f", 1, 1, "reward", 0.5),
    ]
    training = pl.DataFrame(rows, schema=["method", "seed", "step", "metric", "value"], orient="row")
    parts = [("imports", 1.0), ("total", 4.0), ("generate", 3.0)]
    timings = pl.DataFrame(parts, schema=["part", "seconds"], orient="row")
    labels = [("dapo", 1), ("dapo", 1), ("dapo", 2), ("dph_f", 1)]
    found = training_use(training.cast({"seed": pl.Int32}), labels, [timings] * 4)
    # The parts of a total are not added to it, and a training of two segments takes both.
    assert found.rows() == [("dapo", 2, 2.0, 8.0, 0.0, 300.0, 0.0, 7.5), ("dph_f", 1, 1.0, 3.0, 0.0, 0.0, 7.0, 5.0)]


def test_the_seconds_of_a_stage_count_no_part_twice_and_shares_add_up() -> None:
    rows = [("imports", 2.0, None), ("total", 4.0, None), ("generate", 3.0, 300)]
    frame = pl.DataFrame(rows, schema=["part", "seconds", "tokens"], orient="row").with_columns(max_rss_mib=1.0)
    first, second = costs({"scores_of_samples": frame, "trainings": pl.concat([frame, frame])})
    assert (first.name, first.seconds, second.seconds) == ("Scores of samples", 6.0, 12.0)
    assert (first.speed, second.speed) == ("100", "100")
    assert (second.start, second.start + second.share) == (pytest.approx(100 / 3), pytest.approx(100))


def test_a_loss_is_shown_by_how_often_the_base_solves_a_question() -> None:
    numbers = {"never@8": (0.01, 30), "sometimes@8": (-0.2, 50), "pass@8": (-0.09, 100)}
    rows = [
        {
            **dict.fromkeys(SCHEMAS["comparisons"].columns),
            **{"dataset": "d", "metric": metric, "method": method, "against": "base_itself", "difference": difference},
            **{"low": difference - 0.1, "high": difference + 0.1, "seeds": 1, "seeds_against": 0},
            **{"questions": questions, "trainings": [difference], "level": level},
        }
        for level, metric, (difference, questions) in [
            *(("", *of_all) for of_all in numbers.items()),
            ("plain", "never@8", (0.5, 10)),
        ]
        for method in ("dph_f", "grpo")
    ]
    (table,) = where_lost(SCHEMAS["comparisons"].frame(rows), "d")
    assert table.heads == ["Base solves", "Questions", "GRPO", "DPH-F"]
    assert [row[1:3] for row in table.rows] == [
        ["30", ("+1.0 [-9.0, +11.0]", "+0.3 questions")],
        ["50", ("-20.0 [-30.0, -10.0]", "-10.0 questions")],
    ]
    assert where_lost(SCHEMAS["comparisons"].frame(rows), "other") == []
