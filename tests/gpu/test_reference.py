"""The reference stage in bfloat16: what it stores, compared with float32 on the CPU.

Needs torch, transformers, polars and pydantic.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

for _library in ("polars", "pydantic"):
    pytest.importorskip(_library)

from attention_suite import rows_of
from stored_responses import store, table_of
from tiny_models import HEADS_OF_128, KINDS, write_tiny_policy
from torch import Tensor

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, load_model
from dphrl.training.reference import compute_here, load_reference

pytestmark = pytest.mark.gpu

ROWS = rows_of([40, 9, 1, 30], [[30, 5, 1, 12], [20], [2, 3], [50]], vocabulary=64)
TOP_K = 4
# In nats: of the largest difference, and of the root mean square.
LARGEST, USUAL = 0.3, 0.05


def _close(found: list[Tensor], exact: list[Tensor]) -> None:
    difference = torch.cat([part.flatten() for part in found]) - torch.cat([part.flatten() for part in exact])
    print(
        f"differences of log-probs: largest {difference.abs().max():.3g}, usual {difference.square().mean() ** 0.5:.3g}"
    )
    assert difference.abs().max() < LARGEST
    assert difference.square().mean() ** 0.5 < USUAL


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A policy that is stored in bfloat16, as published models are."""
    write_tiny_policy(tmp_path, kind=request.param, **HEADS_OF_128).bfloat16().save_pretrained(tmp_path)
    return tmp_path


def _exact(base: Path, rows: list[Row]) -> tuple[list[Tensor], list[Tensor]]:
    """Log-probs of the responses, and of the likeliest tokens."""
    module = LogProbs(load_model(base, "float32"), "padded")
    computed = compute_here(module, rows, module.plan(rows, 10_000, "off"), TOP_K)
    return [logprobs for logprobs, _, _ in computed], [values for _, _, values in computed]


def test_the_reference_stage_stores_the_log_probs_of_float32_but_for_rounding(base: Path, device: str) -> None:
    exact, likeliest = _exact(base, ROWS)
    module = load_reference(base, "bfloat16", "auto")
    assert module.device.startswith(device)
    assert module.form() == ("packed" if device == "cuda" else "padded")
    stored = store(table_of(ROWS, sampler=[part.tolist() for part in exact]), module, TOP_K, base)
    rows, logprobs = stored.rows(range(len(ROWS)))
    assert [[*row.prompt, *row.response] for row in rows] == [[*row.prompt, *row.response] for row in ROWS]
    _close(logprobs, exact)
    _close(stored.topk(range(len(ROWS)))[1], likeliest)
    gaps = [float((ours - theirs).abs().max()) for ours, theirs in zip(logprobs, exact, strict=True)]
    assert stored.index.collect()["max_sampler_gap"].to_list() == pytest.approx(gaps)
