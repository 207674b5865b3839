"""Methods that differ in eta alone, and what a training uses."""

import polars as pl

from dphrl.config.blocks.training import MethodConfig
from dphrl.report.counts import training_use
from dphrl.report.paper import ablation, families


def blocks(**methods):
    return {name: MethodConfig(**block).model_dump() for name, block in methods.items()}


def test_a_family_differs_in_eta_alone():
    methods = blocks(
        grpo={"rollout_on": "all", "eps_high": 0.2},
        dapo={"rollout_on": "all"},
        js_0_01={"divergence": "js", "eta": 0.01},
        dph_js={"divergence": "js", "eta": 0.2},
        js_half={"divergence": "js", "eta": 0.2, "js_scale": 0.5},
        rkl={"divergence": "reverse_kl", "eta": 0.01},
    )
    assert families(methods) == {"JS (DPH-JS)": ["dph_js", "js_0_01"]}
    assert families({}) == {}


def test_two_families_of_one_divergence_have_different_names():
    methods = blocks(
        a={"divergence": "alpha", "alpha": 0.2, "eta": 0.01},
        b={"divergence": "alpha", "alpha": 0.2, "eta": 0.1},
        c={"divergence": "alpha", "alpha": 0.8, "eta": 0.01},
        d={"divergence": "alpha", "alpha": 0.8, "eta": 0.1},
    )
    assert families(methods) == {"Alpha": ["a", "b"], "Alpha, as c": ["c", "d"]}


def test_the_table_has_the_proportions_of_the_family(tables, weights):
    table = ablation(tables["headline"], weights)
    assert table.select("eta", "method").unique().sort("eta").rows() == [(0.1, "dph_f"), (1.0, "dph_js")]
    assert set(table["metric"]) == {"greedy", "mean@16", "pass@8", "pass@16"}
    assert ablation(tables["headline"], {}).is_empty()


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
