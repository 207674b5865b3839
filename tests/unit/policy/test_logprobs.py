"""The forward pass: log-probs of response tokens, whatever the batch. Shared and packed: test_prompt_sharing.py."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_model
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GraniteConfig,
    PreTrainedConfig,
)

from dphrl.config.blocks.training import LoraConfig
from dphrl.policy import logprobs as policy
from dphrl.policy.batch import Row, collate, plan
from dphrl.policy.check_model import check_model
from dphrl.policy.logprobs import LogProbs, response_logprobs
from dphrl.training.weights import add_adapters

VOCABULARY = 50
ROWS = [
    Row([1, 2, 3], [4, 5]),
    Row([7], [8]),
    Row([9, 8, 7, 6, 5], [1]),
    Row([2, 2], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]),
    Row([7], [8]),
    Row([49, 0], [0, 0, 48]),
]


@pytest.fixture(scope="module")
def module() -> LogProbs:
    return LogProbs(tiny_model(VOCABULARY))


def _plain(module: LogProbs, row: Row) -> Tensor:
    """Log-probs of one row by the model's own forward, alone and without padding."""
    ids = torch.tensor([[*row.prompt, *row.response]])
    with torch.no_grad():
        logprobs = module.model(input_ids=ids).logits[0].float().log_softmax(-1)
    return logprobs[:-1].gather(1, ids[0, 1:, None])[len(row.prompt) - 1 :, 0]


def _close(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_logprobs_are_those_of_a_plain_forward(module: LogProbs) -> None:
    found = response_logprobs(module, ROWS, 13)
    _close(found, [_plain(module, row) for row in ROWS])
    assert {part.dtype for part in found} == {torch.float32}
    assert not any(part.requires_grad for part in found)
    # The sizes are checked too: these rows are not near-uniform.
    assert max(float(part.std()) for part in found if len(part) > 1) > 0.5


def _chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of each product with the head from now on."""
    seen: list[int] = []
    product = policy.linear
    monkeypatch.setattr(policy, "linear", lambda hidden, *head: seen.append(len(hidden)) or product(hidden, *head))
    return seen


@pytest.mark.parametrize("with_gradient", [True, False])
def test_the_logits_of_a_batch_never_exist_at_once(
    module: LogProbs, with_gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "_LOGITS_PER_CHUNK", 3 * VOCABULARY)
    seen = _chunks(monkeypatch)
    with torch.set_grad_enabled(with_gradient):
        logprobs, _ = module(collate(ROWS))
    saved: list[torch.Size] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor.shape) or tensor, lambda t: t):
        module(collate(ROWS))
    assert max(seen) == 3
    assert not [shape for shape in saved if shape[-1:] == (VOCABULARY,)]
    _close([logprobs.detach()], [torch.cat([_plain(module, row) for row in ROWS])])


@pytest.mark.parametrize(("device", "tokens"), [("cpu", 32), ("meta", 654)])
def test_products_with_the_head_are_as_large_as_the_memory_of_the_device_allows(
    device: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = LogProbs(tiny_model(128_256, hidden_size=16, max_position_embeddings=1024).to(device))
    seen = _chunks(monkeypatch)
    with torch.no_grad():
        module(collate([Row([1], [2] * (2 * tokens + 1))], device, form=module.form()))
    assert seen == [tokens, tokens, 1]


@pytest.mark.parametrize("positions", [1, 100], ids=["recomputed", "kept"])
def test_values_and_gradients_are_those_of_autograd(
    module: LogProbs, positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log-probs of the response, and of other tokens, and the entropy; at so many positions at once."""
    monkeypatch.setattr(policy, "_LOGITS_PER_CHUNK", positions * VOCABULARY)
    row, parameters = ROWS[0], list(module.parameters())
    top = torch.tensor([[4, 9, 0], [1, 1, 49]], dtype=torch.int32)
    logprobs, entropy, of_top = module(collate([row]), top)
    ids = torch.tensor([[*row.prompt, *row.response]])
    everything = module.model(input_ids=ids).logits[0, 2:4].log_softmax(-1)
    expected = everything.gather(1, torch.cat([ids[0, 3:, None], top], 1))
    computed = torch.cat([logprobs[:, None], of_top], 1)
    _close([computed, entropy], [expected, -(everything.exp() * everything).sum(-1).detach()])
    assert not entropy.requires_grad
    weights = torch.tensor([[2.0, 1.0, -2.0, 0.5], [-1.0, 3.0, 1.0, -1.0]])
    _close(*(torch.autograd.grad((weights * values).sum(), parameters) for values in (computed, expected)))


def _head(dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Hidden states, weight and bias with gradients, and ids, one of them twice at a position."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 6), (VOCABULARY, 6), (VOCABULARY,))
    values = [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    return *values, torch.tensor([[1, 0], [3, 3], [49, 7], [2, 5]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_recomputed_head_is_that_of_autograd(dtype: torch.dtype) -> None:
    *parameters, ids = _head(dtype)
    logprobs, entropy = policy._gathered(policy._log_softmax(*parameters), ids)
    ours, of_ours = policy._Recomputed.apply(*parameters, ids)
    assert torch.equal(ours, logprobs)
    assert torch.equal(of_ours, entropy)
    weights = torch.tensor([[1.0, -2.0], [3.0, 1.0], [0.5, 0.0], [-1.0, 4.0]])
    found, expected = (torch.autograd.grad((weights * values).sum(), parameters) for values in (ours, logprobs))
    torch.testing.assert_close(found, expected)


def test_an_adapted_head_has_its_adapters() -> None:
    module = LogProbs(tiny_model(VOCABULARY))
    add_adapters(module.model, LoraConfig(targets=("lm_head",)), seed=0)
    for parameter in module.model.lm_head.lora_B.parameters():
        nn.init.normal_(parameter)
    logprobs = module(collate([ROWS[0]]))[0]
    _close([logprobs.detach()], [_plain(module, ROWS[0])])
    logprobs.sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("k", [5, VOCABULARY])
def test_the_likeliest_tokens_come_with_their_logprobs(module: LogProbs, k: int) -> None:
    for row in ROWS:
        logprobs, ids, top = module.topk(collate([row]), k)
        _close([logprobs], [_plain(module, row)])
        assert ids.shape == top.shape == (len(row.response), k)
        assert bool((top.diff(dim=1) <= 0).all())
        assert not top.requires_grad
        with torch.no_grad():
            _close([module(collate([row]), ids)[2]], [top])
        if k == VOCABULARY:
            torch.testing.assert_close(top.exp().sum(1), torch.ones(len(top)))


@pytest.mark.parametrize("k", [0, VOCABULARY + 1])
def test_more_likeliest_tokens_than_the_vocabulary_are_refused(module: LogProbs, k: int) -> None:
    with pytest.raises(ValueError, match=f"K = {k}: expected 1 to {VOCABULARY}"):
        module.topk(collate(ROWS), k)


@pytest.mark.parametrize(
    ("config", "attribute"),
    [
        (CohereConfig(logit_scale=0.0625), "logit_scale = 0.0625"),
        (GraniteConfig(logits_scaling=8.0), "logits_scaling = 8.0"),
        (Gemma2Config(final_logit_softcapping=30.0, head_dim=8, num_hidden_layers=1), "final_logit_softcapping = 30.0"),
    ],
)
def test_a_model_that_changes_its_logits_after_the_head_is_refused(
    config: PreTrainedConfig, attribute: str, tmp_path: Path
) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    for name, value in {**small, "intermediate_size": 16, "vocab_size": 20, "pad_token_id": 0}.items():
        setattr(config, name, value)
    words = f"config attribute {attribute} changes the logits after the output head"
    with pytest.raises(ValueError, match=words):
        LogProbs(AutoModelForCausalLM.from_config(config))
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=words):
        check_model(tmp_path)


CODE = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnModel"}


def test_a_model_that_brings_code_is_refused_unless_transformers_knows_it(tmp_path: Path) -> None:
    (tmp_path / "configuration_own.py").write_text("raise SystemExit('executed')")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": CODE}))
    with pytest.raises(
        ValueError, match=r"config\.json: not a causal language model of transformers .* is never executed"
    ):
        check_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "auto_map": CODE}))
    check_model(tmp_path)


@pytest.mark.parametrize("row", [Row([], [1]), Row([1], [])])
def test_a_row_needs_a_prompt_and_a_response(row: Row) -> None:
    with pytest.raises(ValueError, match=r"row 1 has \d prompt and \d response tokens, both need >= 1"):
        collate([ROWS[0], row])


def test_a_batch_is_padded_on_the_right() -> None:
    batch = collate([Row([5, 6], [7]), Row([8], [9, 3, 2])])
    assert batch.input_ids.tolist() == [[5, 6, 7, 0], [8, 9, 3, 2]]
    assert batch.predicts.tolist() == [1, 4, 5, 6]
    assert batch.targets.tolist() == [7, 9, 3, 2]


@given(lengths=st.lists(st.integers(2, 40), max_size=40), token_budget=st.integers(1, 120))
def test_micro_batches_of_whole_rows_are_as_large_as_the_budget_allows(lengths: list[int], token_budget: int) -> None:
    groups = [group.rows for group in plan([Row([1], [2] * (n - 1)) for n in lengths], token_budget, "off")]
    # No group could have been joined to the group before it.
    for before, after in pairwise(groups):
        assert (len(before) + 1) * lengths[before[0]] > token_budget
        assert lengths[before[-1]] >= lengths[after[0]]
