"""What a training used."""

import polars as pl

from dphrl.report.counts import training_use


def test_what_was_used_is_added_up_over_steps_and_averaged_over_trainings():
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
