"""Packed rows on a GPU: PyTorch's flash attention, and a whole policy.

Needs torch and transformers. On a CPU `tests/unit/policy/test_packing.py` has the same checks.
"""

import pytest
import torch
from attention_suite import RUNS, Runs, check_operator, check_packed_rows, model_of, rows_of
from tiny_models import KINDS

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]

# Prompts and responses as of SQL, one of them at the limit of 4,096 tokens; and short ones.
ROWS = {
    "long": rows_of([1800, 2500, 700], [[350] * 6 + [4096, 20], [200, 500], [300]]),
    "short": rows_of([40, 9, 1], [[30, 5, 1, 12], [20], [2, 3]]),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.02), (torch.float16, 0.003)])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (7, 1)])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)
def test_packed_attention_is_the_masked_attention_of_the_whole_sequence(
    runs: Runs, width: int, heads: tuple[int, int], dtype: torch.dtype, tolerance: float
) -> None:
    check_operator("cuda", dtype, tolerance, heads, width, runs, None)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_in_bfloat16_are_as_close_to_float32_as_padded_ones(kind: str, width: int, rows: list[Row]) -> None:
    """Root mean square of log-probs and norm of the gradient: at most 1.25 times the error of padded rows."""
    check_packed_rows(kind, width, "cuda", rows, max(10_000 * (len(rows[0].prompt) > 100), 100))


def test_rows_are_packed_on_a_gpu_in_half_precision_alone() -> None:
    forms = {
        dtype: LogProbs(model_of("llama", 64, "cuda", dtype)).form()
        for dtype in (torch.bfloat16, torch.float16, torch.float32)
    }
    assert forms == {torch.bfloat16: "packed", torch.float16: "packed", torch.float32: "padded"}
