"""Packed rows: which models take them, and PyTorch's flash attention as the tests have it."""

import pytest
import torch
from attention_suite import RUNS, Runs, check_operator, check_packed_rows, rows_of
from flash_attention import flash_attention_on_cpu
from tiny_models import KINDS, tiny_model

from dphrl.policy.batch import Row, collate
from dphrl.policy.logprobs import LogProbs
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
    model = tiny_model()
    wanted = [LogProbs(model, attention) for attention in ("auto", "packed", "padded")]
    assert [wanted[0].form(), wanted[2].form()] == ["padded", "padded"]
    with pytest.raises(ValueError, match=r"rows cannot be packed: PyTorch .* has no flash attention on 'cpu'; set"):
        wanted[1].form()
    with flash_attention_on_cpu():
        assert [module.form() for module in wanted] == ["packed", "packed", "padded"]
        assert {part.form for part in wanted[0].plan(ROWS, 5, "off")} == {"packed"}
    # A device without numbers, as tests of placement use it.
    assert LogProbs(tiny_model().to("meta")).form() == "packed"


@pytest.mark.parametrize("changes", [{"head_dim": 12}, {"head_dim": 264}])
def test_rows_of_heads_that_flash_attention_cannot_take_are_padded(changes: dict[str, int]) -> None:
    with flash_attention_on_cpu():
        module = LogProbs(tiny_model(**changes))
        assert module.form() == "padded"
        assert "heads of at most 256, in steps of 8" in str(packing_obstacle(module.model))
        module(collate(ROWS))


def test_rows_of_keys_and_values_of_different_width_are_padded() -> None:
    model = tiny_model()
    model.config.v_head_dim = 16
    with flash_attention_on_cpu():
        assert LogProbs(model).form() == "padded"
