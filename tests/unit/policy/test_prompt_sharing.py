"""Shared prompts, padded and packed: the log-probs and gradients of plain rows, whatever rows are in one sequence."""

from collections.abc import Iterator, Sequence
from typing import get_args

import pytest
import torch
from flash_attention import flash_attention_on_cpu
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from dphrl.policy import prompt_sharing as sharing
from dphrl.policy.batch import Batch, Form, PromptSharing, Row, collate, plan
from dphrl.policy.logprobs import LogProbs, response_logprobs

VOCABULARY = 50
FORMS: tuple[Form, ...] = get_args(Form)
MODELS = [(LlamaConfig, LlamaForCausalLM, "eager"), (Qwen2Config, Qwen2ForCausalLM, "sdpa")]


def _model(config: type = LlamaConfig, model: type = LlamaForCausalLM, attention: str = "sdpa") -> PreTrainedModel:
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    # Large weights, so that a wrong position or a look at another response would be seen.
    sizes = {
        "vocab_size": VOCABULARY,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "initializer_range": 0.2,
    }
    return model(config(**small, **sizes, attn_implementation=attention))


@pytest.fixture(scope="module", autouse=True)
def flash_attention() -> Iterator[None]:
    """What packed rows need, and PyTorch has on GPUs only."""
    with flash_attention_on_cpu():
        yield


@pytest.fixture(scope="module", params=FORMS)
def module(request: pytest.FixtureRequest) -> LogProbs:
    return LogProbs(_model(), request.param)


@pytest.fixture(
    scope="module",
    params=[(form, *entry) for form in FORMS for entry in MODELS],
    ids=lambda entry: f"{entry[0]}-{entry[2].__name__}-{entry[3]}",
)
def pair(request: pytest.FixtureRequest) -> tuple[LogProbs, PreTrainedModel]:
    """A policy, and the same model as transformers makes it."""
    form, *entry = request.param
    return LogProbs(_model(*entry), form), _model(*entry)


def _batch(module: LogProbs, rows: Sequence[Row], shared: bool = True) -> Batch:
    return collate(rows, shared=shared, form=module.form())


@st.composite
def _rows(draw: st.DrawFn, most_groups: int = 4, longest: int = 12) -> list[Row]:
    """Groups of responses to random prompts, in any order."""
    tokens = st.integers(0, VOCABULARY - 1)
    ids = st.lists(tokens, min_size=1, max_size=longest)
    groups = draw(st.lists(st.tuples(ids, st.lists(ids, min_size=1, max_size=5)), min_size=1, max_size=most_groups))
    return draw(st.permutations([Row(prompt, response) for prompt, responses in groups for response in responses]))


def _close(found: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float = 2e-5) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


def _same_gradients(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Equal to 2e-5 of the largest of all: some, as those of a key's bias, are zero but for rounding."""
    _close(found, expected, 2e-5 * max(float(gradient.abs().max()) for gradient in expected))


def _plain(model: PreTrainedModel, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
    """Log-probs and entropies by the model's own forward, each row alone."""
    logprobs, entropy = [], []
    for row in rows:
        ids = torch.tensor([[*row.prompt, *row.response]])
        all_logprobs = model(input_ids=ids).logits[0, len(row.prompt) - 1 : -1].log_softmax(-1)
        logprobs.append(all_logprobs.gather(1, torch.tensor(row.response)[:, None])[:, 0])
        entropy.append(-(all_logprobs.exp() * all_logprobs).sum(-1))
    return torch.cat(logprobs), torch.cat(entropy).detach()


def _gradients(logprobs: Tensor, model: torch.nn.Module) -> list[Tensor]:
    # Of one sign, so that equal tokens do not cancel and leave rounding alone.
    weights = torch.linspace(1, 2, len(logprobs)) / len(logprobs)
    return list(torch.autograd.grad((weights * logprobs).sum(), list(model.parameters())))


@settings(max_examples=15)
@given(rows=_rows())
def test_shared_prompts_give_the_logprobs_and_gradients_of_plain_rows(
    pair: tuple[LogProbs, PreTrainedModel], rows: list[Row]
) -> None:
    module, model = pair
    shared, plain = module(_batch(module, rows)), _plain(model, rows)
    _close(shared, plain)
    _same_gradients(_gradients(shared[0], module), _gradients(plain[0], model))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 0.05)])
def test_keys_where_they_are_give_the_attention_over_copies_of_them(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tolerance: float, form: Form
) -> None:
    """The second way is the one of models and devices that have no attention in two parts; here in float32."""
    rows = [Row([1, 2, 3], [4, 5]), Row([6], [7, 8, 9]), Row([1, 2, 3], [9]), Row([6], [3]), Row([5, 4], [3, 2])]
    model, exact = LogProbs(_model().to(dtype), form), LogProbs(_model())
    found = model(_batch(model, rows))
    gradient = torch.cat([part.flatten() for part in _gradients(found[0], model)])
    monkeypatch.setattr(sharing, "_over_parts", sharing._over_copies)
    expected = exact(collate(rows, shared=True))
    _close(found, expected, tolerance)
    expected_gradient = torch.cat([part.flatten() for part in _gradients(expected[0], exact)])
    assert float((gradient - expected_gradient).norm() / expected_gradient.norm()) <= tolerance


def test_a_response_sees_its_prompt_and_itself_alone(module: LogProbs) -> None:
    rows = [Row([1, 2, 3], [4, 5, 6]), Row([1, 2, 3], [7, 8]), Row([9], [10]), Row([9], [11])]
    others = [rows[0], Row([1, 2, 3], [40, 41]), Row([42], [43]), Row([44], [45])]
    with torch.no_grad():
        first, second = (module(_batch(module, batch))[0][:3] for batch in (rows, others))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("form", "shared", "tokens", "positions"),
    [
        # Prompts, then their responses.
        ("padded", True, [1, 2, 3, 5, 8, 9, 6, 7], [0, 1, 0, 2, 2, 3, 1, 2]),
        # Shared prompts, then whole rows, then the responses to shared prompts.
        ("packed", True, [1, 2, 3, 6, 7, 5, 8, 9], [0, 1, 0, 1, 2, 2, 2, 3]),
        ("packed", False, [1, 2, 5, 3, 6, 7, 1, 2, 8, 9], [0, 1, 2, 0, 1, 2, 0, 1, 2, 3]),
    ],
)
def test_a_shared_batch_holds_each_prompt_once(
    form: Form, shared: bool, tokens: list[int], positions: list[int]
) -> None:
    rows = [Row([1, 2], [5]), Row([3], [6, 7]), Row([1, 2], [8, 9])]
    batch = collate(rows, shared=shared, form=form)
    assert batch.layout is not None
    assert batch.input_ids.tolist() == [tokens]
    assert batch.layout.position_ids.tolist() == [positions]
    assert batch.targets.tolist() == [5, 6, 7, 8, 9]


@settings(max_examples=30)
@given(rows=_rows(), token_budget=st.integers(1, 80), sharing=st.sampled_from(["auto", "on", "off"]))
def test_logprobs_come_in_row_order_whatever_the_packing(
    module: LogProbs, rows: list[Row], token_budget: int, sharing: PromptSharing
) -> None:
    found = response_logprobs(module, rows, token_budget, prompt_sharing=sharing)
    assert [len(part) for part in found] == [len(row.response) for row in rows]
    with torch.no_grad():
        _close([torch.cat(found)], [_plain(module.model, rows)[0]])


def _computed(rows: Sequence[Row], shared: bool, form: Form) -> int:
    """Tokens that a pass computes: in its layers, or padded in its attention."""
    batch = collate(rows, shared=shared, form=form)
    if isinstance(batch.layout, sharing.PromptLayout):
        return batch.layout.prompts.numel() + batch.layout.responses.numel()
    return batch.input_ids.numel()


@given(
    rows=_rows(most_groups=6),
    token_budget=st.integers(1, 200),
    wanted=st.sampled_from(["auto", "on", "off"]),
    form=st.sampled_from(FORMS),
)
def test_a_plan_holds_every_row_once_within_the_budget(
    rows: list[Row], token_budget: int, wanted: PromptSharing, form: Form
) -> None:
    micro_batches = plan(rows, token_budget, wanted, form)
    assert sorted(i for m in micro_batches for i in m.rows) == list(range(len(rows)))
    for m in micro_batches:
        assert len(m.rows) == 1 or _computed([rows[i] for i in m.rows], m.shared, form) <= token_budget
        assert wanted == "auto" or m.shared == (wanted == "on")
        assert m.form == form


@given(rows=_rows(most_groups=6), token_budget=st.integers(1, 200), form=st.sampled_from(FORMS))
def test_responses_of_a_prompt_stay_together_where_they_fit(rows: list[Row], token_budget: int, form: Form) -> None:
    micro_batches = plan(rows, token_budget, "on", form)
    for prompt in {tuple(row.prompt) for row in rows}:
        group = {i for i, row in enumerate(rows) if tuple(row.prompt) == prompt}
        holders = [m for m in micro_batches if group & set(m.rows)]
        tokens = _computed([rows[i] for i in group], True, form)
        assert (len(holders) == 1) == (tokens <= token_budget or len(group) == 1)


def test_a_group_beyond_the_budget_is_cut_and_repeats_its_prompt() -> None:
    rows = [Row([1] * 10, [2] * 4) for _ in range(5)]
    assert [m.rows for m in plan(rows, 20, "on")] == [[0, 1], [2, 3], [4]]
    assert [m.rows for m in plan(rows, 9, "on")] == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("prompt", "response", "count", "shared"), [(40, 35, 16, True), (40, 35, 1, False), (10, 200, 16, False)]
)
def test_auto_shares_where_tokens_are_saved(prompt: int, response: int, count: int, shared: bool) -> None:
    rows = [Row([1] * prompt, [2] * response) for _ in range(count)]
    assert {m.shared for m in plan(rows, 10_000, "auto")} == {shared}
    # Packed, a saved token costs nothing, and a row alone with its prompt is one run either way.
    assert {m.shared for m in plan(rows, 10_000, "auto", "packed")} == {True}


def test_auto_decides_for_each_prompt_by_itself() -> None:
    rows = [Row([1] * 30, [2] * 5), Row([3] * 30, [2] * 5), Row([1] * 30, [4] * 5)]
    found = [(m.rows, m.shared) for m in plan(rows, 1000, "auto")]
    assert found == [([0, 2], True), ([1], False)]


def _mistral(window: int | None) -> PreTrainedModel:
    model = _model(MistralConfig, MistralForCausalLM)
    model.config.sliding_window = window
    return model


def _flash() -> PreTrainedModel:
    model = _model()
    model.config._attn_implementation_internal = "flash_attention_2"
    return model


@pytest.mark.parametrize(
    ("model", "named"),
    [(_mistral(4), "sliding_window = 4"), (_flash(), "'flash_attention_2' takes no mask")],
    ids=["sliding", "flash"],
)
def test_a_model_whose_prompts_cannot_be_shared_is_refused_or_padded(model: PreTrainedModel, named: str) -> None:
    module = LogProbs(model)
    assert module.prompt_sharing("auto") == module.prompt_sharing("off") == "off"
    with pytest.raises(ValueError, match=f"prompts cannot be shared: .*{named}.* set prompt sharing to"):
        module.prompt_sharing("on")
    with pytest.raises(ValueError, match=named):
        module(collate([Row([1], [2])], shared=True))


def test_a_sliding_window_is_kept_in_padded_rows() -> None:
    module = LogProbs(_mistral(4))
    rows = [Row([1, 2, 3], [4, 5, 6, 7, 8, 9]), Row([1, 2, 3], [6])]
    found = torch.cat(response_logprobs(module, rows, 1000, prompt_sharing="auto"))
    with torch.no_grad():
        _close([found], [_plain(_mistral(4), rows)[0]])
        assert not torch.allclose(found, _plain(_mistral(None), rows)[0], atol=1e-3)


def test_attention_that_is_not_plain_is_never_shared_in_silence() -> None:
    module = LogProbs(_mistral(None))
    module(collate([Row([1], [2])], shared=True))
    module.model.config.sliding_window = 4
    with pytest.raises(ValueError, match="MistralAttention asks for attention with sliding_window = 4: not supported"):
        module(collate([Row([1], [2])], shared=True))
