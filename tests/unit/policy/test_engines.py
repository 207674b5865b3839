"""The transformers engine: the checks that every engine must pass, and its sampling."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from engine_suite import (
    CHECKS,
    MAX_MODEL_LEN,
    Policy,
    a_turn_and_a_stop_text_end_a_response,
    requests,
    tied_embeddings_are_pushed_whole,
)
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn
from transformers import MistralConfig, MistralForCausalLM

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.policy.decoding import Settings, draw_by_row, draw_together, sample_tokens
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return Policy.write(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def engine(policy: Policy) -> Engine:
    return policy.engine("transformers")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_every_engine_does(check: Callable[[Policy, Engine], None], policy: Policy, engine: Engine) -> None:
    check(policy, engine)


def test_a_turn_and_stop_texts_end_responses(tmp_path: Path) -> None:
    policy = Policy.with_template(tmp_path)
    stops = ("c", "8m")
    a_turn_and_a_stop_text_end_a_response(policy, policy.engine("transformers", stop=stops), stops)


class Pass(NamedTuple):
    """A forward pass: its tokens, and the prompts, responses and numbers in the cache."""

    tokens: int
    prompts: int
    responses: int
    numbers: int


def _small(policy: Policy, **settings: float) -> tuple[TransformersEngine, list[Pass]]:
    """An engine with these settings, and the list of its forward passes, filled as it runs."""
    config = EngineConfig(name="transformers", dtype="float32", max_model_len=MAX_MODEL_LEN)
    engine = make_engine(policy.folder, config, HardwareConfig(**settings))  # type: ignore[arg-type]
    assert isinstance(engine, TransformersEngine)
    passes: list[Pass] = []

    def record(module: nn.Module, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
        cache = kwargs["shared_attention"].__self__
        numbers = sum(states.numel() for layer in cache._layers.values() for states in vars(layer).values())
        passes.append(Pass(kwargs["input_ids"].numel(), len(cache.prompts), len(cache._owner), numbers))

    engine._model.register_forward_pre_hook(record, with_kwargs=True)
    return engine, passes


# Two layers of one key and one value of 32 numbers, of 4 bytes.
NUMBERS_PER_TOKEN = 2 * 2 * 32
BYTES_PER_TOKEN = 4 * NUMBERS_PER_TOKEN


@pytest.mark.parametrize(
    ("settings", "rows", "tokens"),
    [
        ({"max_num_seqs": 5}, 5, 10_000),
        ({"kv_cache_gib": 100 * BYTES_PER_TOKEN / 2**30}, 256, 100),
        # Less than one row needs: rows are drawn one by one.
        ({"kv_cache_gib": 3 * BYTES_PER_TOKEN / 2**30}, 1, 10_000),
    ],
)
def test_a_small_batch_draws_the_same_within_its_bounds(
    policy: Policy, engine: Engine, settings: dict[str, float], rows: int, tokens: int
) -> None:
    small, passes = _small(policy, **settings)
    asked = requests(50)
    assert [c.token_ids for c in small.generate(asked)] == [c.token_ids for c in engine.generate(asked)]
    assert max(made.responses for made in passes) <= rows
    assert max(made.numbers for made in passes) <= tokens * NUMBERS_PER_TOKEN


def test_a_finished_response_is_replaced_by_the_next(policy: Policy) -> None:
    small, passes = _small(policy, max_num_seqs=4)
    long = replace(requests()[0], prompt_token_ids=[4] * 12, temperature=0.5, top_p=0.5, max_tokens=40)
    seed = next(s for s in range(100) if len(small.generate([replace(long, seed=s)])[0].token_ids) == 40)
    passes.clear()
    small.generate([replace(long, seed=seed), *requests(9, max_tokens=8)])
    # The short ones were drawn in the same passes as the long one: no more passes than its tokens, and a prefill each.
    assert len(passes) <= 40 + 9


def test_responses_to_one_prompt_share_one_copy_of_it_in_the_cache(policy: Policy) -> None:
    small, passes = _small(policy)
    asked = [replace(r, prompt_token_ids=[3 + i % 3] * 9) for i, r in enumerate(requests(30))]
    small.generate(asked)
    first, second, *_ = passes
    assert (first.tokens, first.prompts) == (3 * 9, 3)
    assert (second.tokens, second.prompts, second.responses) == (30, 3, 30)
    longest = max(request.max_tokens for request in asked)
    assert max(made.numbers for made in passes) == (3 * 9 + 30 * longest) * NUMBERS_PER_TOKEN


def test_the_first_token_has_the_distribution_of_the_softmax(policy: Policy, engine: Engine) -> None:
    n, prompt = 2000, [3, 4, 5, 6]
    asked = [replace(requests()[0], prompt_token_ids=prompt, seed=seed, max_tokens=1) for seed in range(n)]
    counts = torch.bincount(torch.tensor([c.token_ids[0] for c in engine.generate(asked)]), minlength=64)
    expected = policy.logits(prompt, [0])[0].double().softmax(-1)
    sigma = (n * expected * (1 - expected)).sqrt()
    assert float(((counts - n * expected).abs() / sigma).max()) < 4


@given(
    logits=st.lists(st.floats(-20, 20), min_size=1, max_size=12),
    temperature=st.floats(0.1, 3),
    top_p=st.floats(0.01, 1),
    uniform=st.floats(0, 1, exclude_max=True),
)
@example(logits=[0.0, 4.0], temperature=0.125, top_p=1.0, uniform=0.0)
def test_a_token_is_drawn_where_the_distribution_function_passes_the_number(
    logits: list[float], temperature: float, top_p: float, uniform: float
) -> None:
    row = (torch.tensor([logits], dtype=torch.float64) / temperature).softmax(-1)
    limit, number = torch.tensor([[top_p]], dtype=torch.float64), torch.tensor([uniform], dtype=torch.float64)
    (drawn,) = draw_by_row(row, limit, number).tolist()
    assert draw_together(row, limit, number).tolist() == [drawn]
    (probs,) = row.tolist()
    descending = sorted(range(len(probs)), key=lambda i: -probs[i])
    sums = accumulate(probs[i] for i in descending)
    # A token is kept if those before it have less than top_p: exactly so, however small its own probability.
    kept = descending[: sum(up_to - probs[i] < top_p for i, up_to in zip(descending, sums, strict=True))]
    total = sum(probs[j] for j in kept)
    below = sum(probs[j] for j in kept if j < drawn)
    assert drawn in kept
    assert below - 1e-9 <= uniform * total <= below + probs[drawn] + 1e-9


@pytest.mark.parametrize("top_p", [0.5, 0.95, 0.9999999, 1.0])
@pytest.mark.parametrize("peak", [0.0, 16.0])
def test_a_real_vocabulary_is_drawn_from_with_its_exact_shares(peak: float, top_p: float) -> None:
    """Evenly spaced numbers draw each token as often as its probability in the nucleus says, give or take one."""
    logits = torch.randn(49_152, generator=torch.Generator().manual_seed(1))
    logits[:100] += peak * torch.linspace(0, 1, 100)
    n = 400
    probs, numbers = logits.softmax(-1), (torch.arange(n, dtype=torch.float64) + 0.5) / n
    limit = torch.full((n, 1), top_p if top_p < 1 else float("inf"))
    drawn = draw_by_row(probs.expand(n, -1), limit, numbers).bincount(minlength=len(logits))
    ordered, order = probs.double().sort(descending=True, stable=True)
    kept = ordered.cumsum(-1) - ordered < limit[0].double()
    share = torch.zeros_like(ordered).scatter(0, order[kept], ordered[kept] / ordered[kept].sum())
    assert ((drawn - n * share).abs() <= 1 + 1e-6).all()
    assert not drawn[share == 0].any()
    assert torch.equal(draw_together(probs.expand(58, -1), limit[:58], numbers[::7]), _tokens(drawn, n)[::7])


def _tokens(counts: torch.Tensor, n: int) -> torch.Tensor:
    """The tokens that ascending numbers draw."""
    return torch.arange(len(counts)).repeat_interleave(counts)[:n]


def test_rows_are_drawn_each_by_its_own_settings() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(4, 3)
    drawn = sample_tokens(
        logits,
        Settings.of(
            [
                replace(requests()[0], temperature=temperature, top_p=top_p)
                for temperature, top_p in ((0.0, 1.0), (1.0, 1.0), (1.0, 0.5), (100.0, 1.0))
            ],
            "cpu",
        ),
        uniforms=torch.tensor([0.0, 0.0, 0.0, 0.5], dtype=torch.float64),
    )
    assert drawn.tolist() == [2, 0, 2, 1]


def test_tied_embeddings_are_pushed_whole(tmp_path: Path) -> None:
    policy = Policy.write(tmp_path, tie_word_embeddings=True)
    tied_embeddings_are_pushed_whole(policy, policy.engine("transformers"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.norm.weight", r"model\.norm\.weight of shape \(3,\) was pushed: the engine has one of shape \(64,\)"),
        ("model.norm.wait", r"model\.norm\.wait of shape \(3,\) was pushed: the engine has none of that name"),
    ],
)
def test_a_weight_that_the_model_has_not_is_refused(engine: Engine, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine.wake([(name, torch.zeros(3))])


def test_a_model_with_a_sliding_window_is_refused(policy: Policy, tmp_path: Path) -> None:
    policy.tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    MistralForCausalLM(MistralConfig(vocab_size=64, sliding_window=8, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"can't draw from this model: .*sliding_window = 8.*set engine\.name: vllm"):
        make_engine(
            tmp_path,
            EngineConfig(name="transformers", dtype="float32", max_model_len=MAX_MODEL_LEN),
            HardwareConfig(),
        )
