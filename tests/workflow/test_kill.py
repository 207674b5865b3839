"""A killed sampling job goes on from its parts.

Kills at random moments: test_chaos.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from runs import Workflow

from dphrl.store.files import parts_folder

pytestmark = pytest.mark.workflow


def test_a_killed_sampling_job_draws_no_finished_part_again(untrained: Workflow, code: Path) -> None:
    requests = code / "policy/requests.py"
    name = "REQUESTS_PER_PART: Final"
    requests.write_text(re.sub(rf"{name} = .*", f"{name} = 16", requests.read_text()))
    run = untrained.configured(engine={"name": "transformers"})
    table = run.results / "draws/main/rollouts/train.presample/0.parquet"
    target = str(table.relative_to(run.folder))
    process = run.start(target)
    # Each part has four of the 24 prompts.
    run.wait_for("sample_draw main train presample 0 (3 of 6):", process)
    run.kill(process)
    assert not table.exists()
    said = run.run(target)
    (before,) = re.findall(r"done in .*: (\d+) prompts were drawn before", said)
    assert int(before) in (8, 12, 16, 20)
    assert "presample 0 (2 of 6)" not in said
    assert "presample 0 (6 of 6)" in said
    tokens = pl.read_parquet(run.results / "timings" / table.relative_to(run.results)).filter(part="generate")["tokens"]
    drawn = pl.read_parquet(table).sort("prompt_id")
    assert tokens.to_list() == [drawn["token_ids"].list.len()[4 * int(before) :].sum()]
    assert not parts_folder(table).exists()
    continued = table.read_bytes()
    table.unlink()
    assert "drawn before" not in run.run(target)
    assert table.read_bytes() == continued
