"""Checks that every engine must pass, against the forward pass of the model, and the policy that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import EOS, tiny_model, write_tokenizer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.machine import progress
from dphrl.policy.engine import AsleepError, Digest, Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.requests import Completion, Request

MAX_MODEL_LEN = 64


@dataclass(frozen=True)
class Policy:
    """A random model on disk and in memory; its responses end with either of two tokens.

    Attributes:
        model: on the CPU in float32, with weights that `dtype` can hold.
        dtype: of the files and of engines.
    """

    folder: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    ends: frozenset[int]
    dtype: torch.dtype = torch.float32

    @classmethod
    def write(cls, folder: Path, *, dtype: torch.dtype = torch.float32, **changes: Any) -> Policy:
        """Write one; `changes` as in `tiny_model`."""
        model = tiny_model(**changes).to(dtype).eval().requires_grad_(False)
        tokenizer = write_tokenizer(folder)
        ends = [EOS, 7]
        model.generation_config.eos_token_id = ends
        model.save_pretrained(folder)
        return cls(folder, model.float(), tokenizer, frozenset(ends), dtype)

    @property
    def tolerance(self) -> float:
        """Of log-probs, in nats."""
        return 1e-4 if self.dtype == torch.float32 else 0.3

    @classmethod
    def with_template(cls, folder: Path, **changes: Any) -> Policy:
        """The policy with a chat template, whose end of a turn is another token than its two others."""
        policy = cls.write(folder, **changes)
        policy.tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
        policy.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<turn>\n{% endfor %}"
        policy.tokenizer.save_pretrained(folder)
        return replace(policy, ends=policy.ends | {policy.tokenizer.convert_tokens_to_ids("<turn>")})

    def engine(self, name: str, *, distributed: bool = False, alone: bool = False, **settings: Any) -> Engine:
        """An engine of that name with this policy; `settings` are of the block `engine`."""
        dtype = str(self.dtype).removeprefix("torch.")
        config = EngineConfig(name=name, dtype=dtype, max_model_len=MAX_MODEL_LEN, **settings)
        hardware = HardwareConfig(max_num_seqs=32, kv_cache_gib=0.1)
        return make_engine(self.folder, config, hardware, distributed=distributed, alone=alone)

    def logits(self, prompt: list[int], response: list[int]) -> Tensor:
        """Logits (response, vocabulary) before each token of the response, from a forward pass of this row only."""
        return self.model(input_ids=torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1]

    def logprobs(self, prompt: list[int], response: list[int]) -> Tensor:
        """Log-probs of the response's tokens."""
        return self.logits(prompt, response).log_softmax(-1).gather(1, torch.tensor(response)[:, None])[:, 0]

    def weights(self, scale: float = 0.0) -> Iterator[tuple[str, Tensor]]:
        """The weights one by one under their Hugging Face names, with noise of `scale` standard deviations."""
        generator = torch.Generator().manual_seed(1)
        for name, tensor in self.model.named_parameters():
            noise = torch.randn(tensor.shape, generator=generator)
            yield name, (tensor + scale * tensor.std() * noise).to(self.dtype)

    def perturbed(self, scale: float) -> Policy:
        """The policy with the weights of `weights(scale)`, in memory only."""
        model = type(self.model)(self.model.config).float().eval().requires_grad_(False)
        model.load_state_dict(dict(self.weights(scale)), strict=False)
        model.tie_weights()
        return replace(self, model=model)


def requests(n: int = 24, **changes: object) -> list[Request]:
    """Requests with prompts of several lengths, some of them shared, and limits of several sizes."""
    made = []
    for i in range(n):
        prompt = [3 + (i // 3 * 5 + t * (1 + i // 9)) % 20 for t in range(3 + i // 3 % 7)]
        made.append(Request(f"p{i // 3}", i % 3, prompt, 1000 + i, temperature=1.0, top_p=1.0, max_tokens=5 + i % 11))
    return [replace(request, **changes) for request in made]  # type: ignore[arg-type]


def _pairs(engine: Engine, asked: list[Request]) -> list[tuple[list[int], Completion]]:
    return [(list(r.prompt_token_ids), c) for r, c in zip(asked, engine.generate(asked), strict=True)]


def completions_come_in_the_order_of_the_requests(policy: Policy, engine: Engine) -> None:
    asked = requests()
    forward = engine.generate(asked)
    backward = engine.generate(asked[::-1])
    assert [c.token_ids for c in forward] == [c.token_ids for c in backward[::-1]]
    assert all(len(c.token_ids) <= r.max_tokens for r, c in zip(asked, forward, strict=True))
    assert len({tuple(c.token_ids) for c in forward}) > 20


def a_seed_decides_the_tokens(policy: Policy, engine: Engine) -> None:
    same = [replace(requests()[0], prompt_id=str(i), max_tokens=8) for i in range(3)]
    assert len({tuple(c.token_ids) for c in engine.generate(same)}) == 1
    others = [replace(same[0], seed=2**62 + seed) for seed in range(5)]
    assert len({tuple(c.token_ids) for c in engine.generate(others)}) == 5


def a_response_is_the_same_alone_and_among_forty_others(policy: Policy, engine: Engine) -> None:
    asked = requests(41, temperature=0.8, top_p=0.9)
    among = engine.generate(asked)
    for i in (0, 13, 40):
        (alone,) = engine.generate([asked[i]])
        assert (alone.token_ids, alone.text, alone.finish_reason) == (
            among[i].token_ids,
            among[i].text,
            among[i].finish_reason,
        )
        assert alone.logprobs == pytest.approx(among[i].logprobs, abs=policy.tolerance)


def greedy_is_the_argmax_of_the_forward_pass(policy: Policy, engine: Engine) -> None:
    for prompt, completion in _pairs(engine, requests(temperature=0.0)):
        logits = policy.logits(prompt, completion.token_ids)
        if policy.dtype == torch.float32:
            assert logits.argmax(-1).tolist() == completion.token_ids
        chosen = logits.gather(1, torch.tensor(completion.token_ids)[:, None])[:, 0]
        assert (chosen >= logits.amax(-1) - policy.tolerance).all()


def logprobs_are_those_of_the_untruncated_softmax_at_temperature_1(policy: Policy, engine: Engine) -> None:
    for prompt, completion in _pairs(engine, requests(temperature=1.5, top_p=0.8)):
        expected = policy.logprobs(prompt, completion.token_ids)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=policy.tolerance, rtol=0)


def logprobs_of_a_text_are_those_of_the_forward_pass(policy: Policy, engine: Engine) -> None:
    text = [3 + i * i % 50 for i in range(MAX_MODEL_LEN - 1)]
    found = engine.text_logprobs(text)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, policy.logprobs(text[:1], text[1:]), atol=policy.tolerance, rtol=0)


def a_nucleus_is_never_left(policy: Policy, engine: Engine) -> None:
    temperature, top_p = 1.5, 0.5
    drawn, ranks = 0, set()
    for prompt, completion in _pairs(engine, requests(60, temperature=temperature, top_p=top_p)):
        probs = (policy.logits(prompt, completion.token_ids).double() / temperature).softmax(-1)
        for row, token in zip(probs, completion.token_ids, strict=True):
            more_probable = row[row > row[token]]
            assert float(more_probable.sum()) < top_p + policy.tolerance / (10 if policy.dtype == torch.float32 else 3)
            ranks.add(len(more_probable))
            drawn += 1
    # The nuclei had several tokens: not only the most probable one was drawn.
    assert drawn > 300
    assert len(ranks) > 4


def a_response_ends_with_an_end_token_or_at_its_limit(policy: Policy, engine: Engine) -> None:
    asked = requests(120)
    seen = set()
    for request, completion in zip(asked, engine.generate(asked), strict=True):
        *body, last = completion.token_ids
        assert not policy.ends & set(body)
        assert completion.finish_reason == ("stop" if last in policy.ends else "length")
        assert last in policy.ends or len(completion.token_ids) == request.max_tokens
        seen.add(last if last in policy.ends else None)
    assert seen == {*policy.ends, None}


def the_text_has_neither_special_tokens_nor_the_end_token(policy: Policy, engine: Engine) -> None:
    for _, completion in _pairs(engine, requests(60)):
        body = completion.token_ids[: -1 if completion.finish_reason == "stop" else None]
        assert completion.text == policy.tokenizer.decode(body, skip_special_tokens=True)


def a_turn_and_a_stop_text_end_a_response(policy: Policy, engine: Engine, stops: tuple[str, ...]) -> None:
    """For an engine with stop texts, the first a frequent one, and the policy `with_template`."""
    asked = requests(240)
    seen = set()
    for request, completion in zip(asked, engine.generate(asked), strict=True):
        *body, last = completion.token_ids
        assert not policy.ends & set(body)
        ended = last in policy.ends
        text = policy.tokenizer.decode(body if ended else completion.token_ids, skip_special_tokens=True)
        found = [stop for stop in stops if stop in text]
        # The last token completes the stop text: before it there is none.
        assert not any(stop in policy.tokenizer.decode(body, skip_special_tokens=True) for stop in stops)
        assert completion.text == (text[: text.index(found[0])] if found else text)
        assert completion.finish_reason == ("stop" if ended or found else "length")
        assert ended or found or len(completion.token_ids) == request.max_tokens
        seen.add(last if ended else (*found, None)[0])
    assert seen >= {*policy.ends, stops[0], None}


def a_response_ends_at_the_maximal_length_of_the_engine(policy: Policy, engine: Engine) -> None:
    left = 4
    prompt = [3 + i % 20 for i in range(MAX_MODEL_LEN - left)]
    completions = engine.generate([Request("p", i, prompt, i, 1.0, 1.0, max_tokens=99) for i in range(20)])
    assert max(len(c.token_ids) for c in completions) == left
    assert all(c.finish_reason == "length" for c in completions if not policy.ends & set(c.token_ids))


def a_push_changes_the_samples_and_the_logprobs_of_a_text(policy: Policy, engine: Engine) -> None:
    # The prompt is longer than a block of vLLM's prefix cache.
    asked = requests(8, prompt_token_ids=[3 + i % 20 for i in range(40)], max_tokens=12)
    before = engine.generate(asked)
    other = policy.perturbed(0.3)
    engine.wake(policy.weights(0.3))
    try:
        for check in (
            logprobs_of_a_text_are_those_of_the_forward_pass,
            logprobs_are_those_of_the_untruncated_softmax_at_temperature_1,
            greedy_is_the_argmax_of_the_forward_pass,
        ):
            check(other, engine)
        for prompt, completion in _pairs(engine, asked):
            expected = other.logprobs(prompt, completion.token_ids)
            torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=policy.tolerance, rtol=0)
        assert [c.token_ids for c in engine.generate(asked)] != [c.token_ids for c in before]
    finally:
        engine.wake(policy.weights())
    after = _pairs(engine, asked)
    if policy.dtype == torch.float32:
        assert [c.token_ids for _, c in after] == [c.token_ids for c in before]
    # In bfloat16 tokens may differ from those of a warm prefix cache: their log-probs show the weights.
    for prompt, completion in after:
        expected = policy.logprobs(prompt, completion.token_ids)
        torch.testing.assert_close(torch.tensor(completion.logprobs), expected, atol=policy.tolerance, rtol=0)


def an_iterator_of_weights_is_exhausted(policy: Policy, engine: Engine) -> None:
    """Ranks gather sharded weights together, so none may stop early."""
    ended = []

    def weights() -> Iterator[tuple[str, Tensor]]:
        yield from policy.weights()
        ended.append(True)

    engine.wake(weights())
    assert ended == [True]


def a_sleeping_engine_only_wakes(policy: Policy, engine: Engine) -> None:
    engine.sleep()
    with pytest.raises(AsleepError, match=r"the engine sleeps.*call wake"):
        engine.generate(requests())
    with pytest.raises(AsleepError):
        engine.text_logprobs([3, 4, 5])
    engine.wake(policy.weights(0.3))
    logprobs_of_a_text_are_those_of_the_forward_pass(policy.perturbed(0.3), engine)
    engine.wake(policy.weights())
    logprobs_of_a_text_are_those_of_the_forward_pass(policy, engine)
    greedy_is_the_argmax_of_the_forward_pass(policy, engine)


def digests_are_those_of_what_was_pushed(policy: Policy, engine: Engine) -> None:
    def compared(scale: float) -> dict[str, bool]:
        held = engine.digests()
        pushed = {name: Digest.of(tensor) for name, tensor in policy.weights(scale)}
        return {n: d == held[n] for n, d in pushed.items() if n in held and d.shape == held[n].shape}

    same = compared(0.0)
    assert {"model.embed_tokens.weight", "model.norm.weight"} <= same.keys()
    assert all(same.values())
    # The norms' weights are all ones: their deviation is 0, and so is the noise.
    assert not compared(1e-6 if policy.dtype == torch.float32 else 1e-2)["model.embed_tokens.weight"]


def no_requests_no_completions(policy: Policy, engine: Engine) -> None:
    assert engine.generate([]) == []


def a_prompt_that_leaves_no_token_for_a_response_is_refused_by_name(policy: Policy, engine: Engine) -> None:
    asked = requests()
    for length, many in ((MAX_MODEL_LEN, "64"), (MAX_MODEL_LEN + 9, "73"), (0, "0")):
        asked[5] = replace(asked[5], prompt_id="culprit", prompt_token_ids=[3] * length)
        with pytest.raises(ValueError, match=rf"prompt culprit has {many} tokens.*max_model_len \(64\)"):
            engine.generate(asked)


def progress_comes_in_lines_under_the_label(policy: Policy, engine: Engine) -> None:
    lines = StringIO()
    before = progress.stream()
    progress.send_to(lines)
    try:
        engine.generate(requests(), "draw 1/2")
        assert lines.getvalue().splitlines()[-1].startswith("draw 1/2: 100%")
        assert "24/24 responses" in lines.getvalue()
        lines.truncate(0)
        engine.generate(requests())
        assert lines.getvalue() == ""
    finally:
        progress.send_to(before)


def tied_embeddings_are_pushed_whole(policy: Policy, engine: Engine) -> None:
    """For a policy with tied embeddings. The output head too, of which vLLM's CPU build keeps a packed copy."""
    assert "lm_head.weight" not in dict(policy.weights())
    for scale in (0.3, 0.1, 0.0):
        engine.wake(policy.weights(scale))
        logprobs_of_a_text_are_those_of_the_forward_pass(policy.perturbed(scale), engine)


CHECKS = [
    completions_come_in_the_order_of_the_requests,
    a_seed_decides_the_tokens,
    a_response_is_the_same_alone_and_among_forty_others,
    greedy_is_the_argmax_of_the_forward_pass,
    logprobs_are_those_of_the_untruncated_softmax_at_temperature_1,
    logprobs_of_a_text_are_those_of_the_forward_pass,
    a_nucleus_is_never_left,
    a_response_ends_with_an_end_token_or_at_its_limit,
    the_text_has_neither_special_tokens_nor_the_end_token,
    a_response_ends_at_the_maximal_length_of_the_engine,
    a_push_changes_the_samples_and_the_logprobs_of_a_text,
    an_iterator_of_weights_is_exhausted,
    a_sleeping_engine_only_wakes,
    digests_are_those_of_what_was_pushed,
    no_requests_no_completions,
    a_prompt_that_leaves_no_token_for_a_response_is_refused_by_name,
    progress_comes_in_lines_under_the_label,
]

# In bfloat16 a response depends on what is computed at the same time.
ALONE_IN_FLOAT32 = [
    completions_come_in_the_order_of_the_requests,
    a_response_is_the_same_alone_and_among_forty_others,
]
IN_BFLOAT16 = [check for check in CHECKS if check not in ALONE_IN_FLOAT32]
