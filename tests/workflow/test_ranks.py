"""The workflow on several ranks makes what it makes on one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from runs import Workflow
from safetensors.numpy import load_file

from dphrl.store.parquet import read_footer

pytestmark = pytest.mark.workflow


@pytest.mark.full
def test_the_reference_of_a_run_is_the_same_on_the_ranks_of_training(finished: Workflow) -> None:
    stored = finished.results / "draws/main/reference"
    tensors, index = stored / "responses.safetensors", stored / "index.parquet"
    alone, rows = load_file(tensors), pl.read_parquet(index)
    tensors.unlink()
    divided = finished.configured(hardware={"ranks": 2, "zero_stage": 3})
    divided.run("reference")
    assert divided.stages() == {"tensorise": 1, "reference": 1}
    assert "rank 1 of 2 on " in (finished.results / "logs/draws/main/reference.log").read_text()
    assert read_footer(index)["hardware"]["zero_stage"] == 3
    for name, tensor in load_file(tensors).items():
        np.testing.assert_allclose(tensor, alone[name], rtol=0, atol=1e-5)
    assert_frame_equal(pl.read_parquet(index), rows, rel_tol=0, abs_tol=1e-5)
    assert not [*finished.results.rglob(".*.tmp")]


@pytest.mark.full
def test_sampling_on_two_ranks_draws_what_one_draws(untrained: Workflow) -> None:
    one = untrained.configured(engine={"stages": {}})  # only vLLM can be spread
    table = one.results / "draws/main/rollouts/train.presample/0.parquet"
    target, log = str(table.relative_to(one.folder)), one.results / "logs/draws/main/rollouts/train.presample/0.log"
    said, drawn = {}, {}
    for workflow, ranks in ((one, 1), (one.configured(hardware={"tensor_parallel": 2}), 2)):
        table.unlink(missing_ok=True)
        said[ranks] = workflow.run(target)
        drawn[ranks] = pl.read_parquet(table)
        assert read_footer(table)["hardware"]["tensor_parallel"] == ranks
    assert "rank 1 of 2 on " in log.read_text()
    # Progress comes from one rank.
    assert said[2].count(" 0/96 responses, 0.0 s <") == 1
    exact = pl.exclude("sampler_logprobs")
    assert drawn[1].height == 24 * 4
    assert drawn[1].select(exact).equals(drawn[2].select(exact))
    assert_frame_equal(drawn[1], drawn[2], abs_tol=1e-4, rel_tol=0)
    parts = pl.read_parquet(one.results / "timings" / table.relative_to(one.results))
    assert {"start", "generate"} <= set(parts["part"])
    assert parts.filter(part="generate")["tokens"].to_list() == [drawn[2]["token_ids"].list.len().sum()]
    assert not [*one.results.rglob(".*.tmp")]
    assert not [*one.results.rglob(".*.parts")]
