"""Packed rows: which models take them, PyTorch's flash attention as the tests have it, and the memory of a GPU."""

import pytest
import torch
from attention_suite import RUNS, Runs, check_operator, check_packed_rows, rows_of
from flash_attention import flash_attention_on_cpu
from layer_memory import BUDGET, LLAMA_8B, SHAPES, head_peak, layer_peak, worst
from tiny_models import KINDS, tiny_llama

from dphrl.policy.batch import Row, collate, plan
from dphrl.policy.logprobs import _LOGITS_PER_CHUNK_ON_GPU, LogProbs
from dphrl.policy.packing import packing_obstacle

ROWS = [Row([1, 2, 3], [4, 5]), Row([1, 2, 3], [6]), Row([7], [8])]


@pytest.mark.parametrize(("heads", "scale"), [((4, 2), None), ((3, 1), 0.3)])
@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)
def test_packed_attention_is_the_masked_attention_of_the_whole_sequence(
    runs: Runs, heads: tuple[int, int], scale: float | None
) -> None:
    """In float64: the merge by log-sum-exps and its gradient are exact, not close."""
    with flash_attention_on_cpu():
        check_operator("cpu", torch.float64, 1e-13, heads, 8, runs, scale)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_in_bfloat16_are_as_close_to_float32_as_padded_ones(kind: str) -> None:
    rows = rows_of([40, 9, 1], [[30, 5, 1, 12], [20], [2, 3]])
    with flash_attention_on_cpu():
        check_packed_rows(kind, 16, "cpu", rows, 100)


def test_rows_are_packed_where_flash_attention_is() -> None:
    model = tiny_llama()
    wanted = [LogProbs(model, attention) for attention in ("auto", "packed", "padded")]
    assert [wanted[0].form(), wanted[2].form()] == ["padded", "padded"]
    with pytest.raises(ValueError, match=r"rows cannot be packed: PyTorch .* has no flash attention on 'cpu'; set"):
        wanted[1].form()
    with flash_attention_on_cpu():
        assert [module.form() for module in wanted] == ["packed", "packed", "padded"]
        assert {part.form for part in wanted[0].plan(ROWS, 5, "off")} == {"packed"}
    # A device without numbers, as tests of placement use it.
    assert LogProbs(tiny_llama().to("meta")).form() == "packed"


@pytest.mark.parametrize("changes", [{"head_dim": 12}, {"head_dim": 264}])
def test_rows_of_heads_that_flash_attention_cannot_take_are_padded(changes: dict[str, int]) -> None:
    with flash_attention_on_cpu():
        module = LogProbs(tiny_llama(**changes))
        assert module.form() == "padded"
        assert "heads of at most 256, in steps of 8" in str(packing_obstacle(module.model))
        module(collate(ROWS))


def test_rows_of_keys_and_values_of_different_width_are_padded() -> None:
    model = tiny_llama()
    model.config.v_head_dim = 16
    with flash_attention_on_cpu():
        assert LogProbs(model).form() == "padded"


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ("the same, 1 response at the limit of 4,096", 8.7),
        ("8 prompts x 1 response, 4,000 tokens", 9.0),
    ],
)
def test_a_layer_of_packed_rows_needs_the_memory_of_its_tokens(shape: str, most: float) -> None:
    """In decimal GB of a Llama of 8B: padded these took 24.4 and 8.8."""
    rows = SHAPES[shape]
    assert worst(LLAMA_8B, rows, plan(rows, BUDGET, "auto", "packed")) < most


def test_a_padded_layer_stays_within_the_memory_of_its_budget_too() -> None:
    rows = SHAPES["the same, 1 response at the limit of 4,096"]
    assert layer_peak(LLAMA_8B, rows, True, "padded") > 20
    assert worst(LLAMA_8B, rows, plan(rows, BUDGET, "auto", "padded")) < 9.0


def test_the_logits_of_the_head_occupy_one_gigabyte_on_a_gpu() -> None:
    assert 0.9 < head_peak(LLAMA_8B, _LOGITS_PER_CHUNK_ON_GPU) < 1.1
