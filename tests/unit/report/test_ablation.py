"""Methods that differ in eta alone, and what a training costs."""

import polars as pl
import pytest

from dphrl.config.blocks.training import MethodConfig
from dphrl.report.counts import training_cost, training_use
from dphrl.report.paper import ablation, families
from dphrl.store.catalogue import SCHEMAS


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


def test_the_table_has_the_proportions_of_the_family(tables):
    table = SCHEMAS["ablation"].conform(tables["ablation"], "test")
    assert table.select("eta", "method").unique().sort("eta").rows() == [(0.1, "dph_f"), (1.0, "dph_js")]
    assert set(table["metric"]) == {"greedy", "mean@16", "pass@8", "pass@16"}
    assert ablation(tables["headline"], {}).is_empty()


def test_costs_are_means_over_the_trainings_of_a_method():
    rows = [
        ("dph_js", 1, "rollout", 10.0, 1000),
        ("dph_js", 1, "rollout", 20.0, 2000),
        ("dph_js", 2, "rollout", 30.0, 6000),
        ("dph_js", 2, "start", 4.0, None),
        ("grpo", 1, "rollout", 5.0, 100),
    ]
    timings = pl.DataFrame(rows, schema=["method", "seed", "part", "seconds", "tokens"], orient="row")
    found = SCHEMAS["training_cost"].conform(training_cost(timings), "test")
    assert found.rows() == [
        ("dph_js", "rollout", 2, 30.0, 4500.0, 150.0),
        ("dph_js", "start", 2, 2.0, None, None),
        ("grpo", "rollout", 1, 5.0, 100.0, pytest.approx(20.0)),
    ]


def test_what_was_used_is_added_up_over_steps_and_averaged_over_trainings():
    rows = [
        *(("dapo", seed, step, "prompts", 4.0) for seed in (1, 2) for step in (1, 2)),
        *(("dapo", seed, step, "drawn_tokens", 100.0 * seed) for seed in (1, 2) for step in (1, 2)),
        ("dph_f", 1, 1, "prompts", 3.0),
        ("dph_f", 1, 1, "stored_tokens", 7.0),
        ("dph_f", 1, 1, "reward", 0.5),
    ]
    training = pl.DataFrame(rows, schema=["method", "seed", "step", "metric", "value"], orient="row")
    found = SCHEMAS["training_use"].conform(training_use(training), "test")
    assert found.rows() == [("dapo", 2, 2.0, 8.0, 0.0, 300.0, 0.0), ("dph_f", 1, 1.0, 3.0, 0.0, 0.0, 7.0)]
