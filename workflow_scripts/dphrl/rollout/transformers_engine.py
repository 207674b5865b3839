"""The model of Hugging Face as an engine: batched sampling with a key-value cache, wherever PyTorch runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from dphrl.artifacts import ProgressLines
from dphrl.config.engine import EngineConfig
from dphrl.model import load_model
from dphrl.rollout.cache import RowCache
from dphrl.rollout.engine import AsleepError, Digest, check_prompts
from dphrl.rollout.requests import Completion, Request

# Finished rows are computed along until they are this share of the batch: to take them out copies the whole cache.
_FINISHED_SHARE = 1 / 8
_TOKENS_PER_PREFILL = 1 << 14
# Prompt tokens that stand before a response when its text is made: some tokenizers drop a space at the start of a text.
_TOKENS_BEFORE_TEXT = 5


@dataclass
class _Draw:
    """A response in the making.

    Attributes:
        limit: most tokens it may have.
        stream: gives the number in [0, 1) that decides each of its tokens, one per position.
        finish_reason: empty until it is finished.
    """

    request: Request
    prompt: tuple[int, ...]
    limit: int
    stream: np.random.Generator
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str = ""

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.tokens)

    @property
    def most(self) -> int:
        return len(self.prompt) + self.limit


class TransformersEngine:
    """An engine on the weights of a Hugging Face folder, on the GPU where there is one (see `Engine`).

    A batch holds as many responses as `max_num_seqs` and the memory of the cache allow; the next ones take the place
    of those that finished. Responses to one prompt share its prefill.

    Args:
        folder: model and tokenizer.
        config: dtype, lengths, memory.
    """

    def __init__(self, folder: Path, config: EngineConfig) -> None:
        self.max_model_len = config.max_model_len
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = load_model(folder, config.dtype).to(self._device).eval().requires_grad_(False)
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        ends = self._model.generation_config.eos_token_id
        self._ends = {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self._max_num_seqs = config.max_num_seqs
        self._max_cached_tokens = int(config.kv_cache_gib * 2**30) // _cache_bytes_per_token(self._model)
        self._asleep = False

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request, in order; with `label`, progress lines under that name."""
        self._check_awake()
        check_prompts(requests, self.max_model_len)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        draws = [self._draw(request, known) for request in requests]
        # The longest prompts first: a batch then needs little padding. Equal ones side by side share a prefill.
        waiting = deque(sorted(draws, key=lambda draw: (-len(draw.prompt), draw.prompt)))
        progress = ProgressLines(total=len(draws), desc=label, unit=" responses", disable=label is None)
        active: list[_Draw] = []
        cache = RowCache()
        with torch.inference_mode():
            while waiting or active:
                while fresh := self._admit(waiting, active):
                    prefilled = self._prefill(fresh)
                    if active:
                        cache.join(prefilled)
                    else:
                        cache = prefilled
                    active += fresh
                while sum(bool(d.finish_reason) for d in active) < _FINISHED_SHARE * len(active):
                    self._extend(active, self._logits([d.tokens[-1:] for d in active], active, cache))
                going = [i for i, draw in enumerate(active) if not draw.finish_reason]
                progress.update(len(active) - len(going))
                active = [active[i] for i in going]
                cache.keep(going, max((draw.length - 1 for draw in active), default=0))
        progress.close()
        return [self._completion(draw) for draw in draws]

    @torch.no_grad()
    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        """Log-probs of token_ids[1:] given what precedes each, float32 (len(token_ids) - 1), temperature 1.

        The logits of the whole text exist at once: it is meant for short ones.
        """
        self._check_awake()
        ids = torch.tensor(token_ids, device=self._device)
        logits = self._model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
        return logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].cpu()

    def push(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights (Hugging Face names).

        Raises:
            ValueError: the model has no weight of that name and shape.
        """
        self._check_awake()
        self._load(weights)

    def digests(self) -> dict[str, Digest]:
        """The digest of every weight."""
        return {name: Digest.of(tensor) for name, tensor in self._model.named_parameters()}

    def sleep(self) -> None:
        """Give the GPU's memory back."""
        self._asleep = True
        self._model.to("cpu")
        torch.cuda.empty_cache()

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take these weights as `push` does, out of sleep where the engine sleeps."""
        self._model.to(self._device)
        self._load(weights)
        self._asleep = False

    @torch.no_grad()
    def _load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        ours = dict(self._model.named_parameters(remove_duplicate=False))
        for name, tensor in weights:
            if name not in ours or ours[name].shape != tensor.shape:
                found = f"one of shape {tuple(ours[name].shape)}" if name in ours else "none of that name"
                raise ValueError(f"weight {name} of shape {tuple(tensor.shape)} was pushed: the engine has {found}")
            ours[name].copy_(tensor)

    def _check_awake(self) -> None:
        if self._asleep:
            raise AsleepError

    def _draw(self, request: Request, known: dict[tuple[int, ...], tuple[int, ...]]) -> _Draw:
        # A dataset has many requests for each prompt: they share one copy of it.
        prompt = tuple(request.prompt_token_ids)
        prompt = known.setdefault(prompt, prompt)
        limit = min(request.max_tokens, self.max_model_len - len(prompt))
        return _Draw(request, prompt, limit, np.random.Generator(np.random.Philox(key=request.seed)))

    def _admit(self, waiting: deque[_Draw], active: Sequence[_Draw]) -> list[_Draw]:
        """Take from `waiting` what the batch has room for, at most as much as one prefill may hold."""
        fresh: list[_Draw] = []
        prompts: set[tuple[int, ...]] = set()
        most = max((draw.most for draw in active), default=0)
        while waiting and len(active) + len(fresh) < self._max_num_seqs:
            draw = waiting[0]
            prompts.add(draw.prompt)
            most = max(most, draw.most)
            cached = (len(active) + len(fresh) + 1) * most
            prefilled = len(prompts) * max(map(len, prompts))
            # One row is always let in.
            if (fresh and prefilled > _TOKENS_PER_PREFILL) or ((active or fresh) and cached > self._max_cached_tokens):
                break
            fresh.append(waiting.popleft())
        return fresh

    def _prefill(self, fresh: Sequence[_Draw]) -> RowCache:
        """Draw the first token of each response; returns the cache of their prompts."""
        prompts = {draw.prompt: draw for draw in fresh}
        place = {prompt: i for i, prompt in enumerate(prompts)}
        cache = RowCache()
        logits = self._logits(list(prompts), list(prompts.values()), cache)
        copies = [place[draw.prompt] for draw in fresh]
        cache.keep(copies, cache.get_seq_length())
        self._extend(fresh, logits[copies])
        return cache

    def _logits(self, inputs: Sequence[Sequence[int]], draws: Sequence[_Draw], cache: RowCache) -> Tensor:
        """Float32 (rows, vocabulary): what follows `inputs`, the last tokens of `draws`, whose others are cached.

        Rows end together, at the right, and are padded on the left.
        """
        longest = max(map(len, inputs))
        ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in inputs])
        lengths = torch.tensor([[draw.length] for draw in draws])
        width = cache.get_seq_length() + longest
        output = self._model(
            input_ids=ids.to(self._device),
            attention_mask=(torch.arange(width) >= width - lengths).to(self._device),
            position_ids=(lengths - longest + torch.arange(longest)).clamp(min=0).to(self._device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def _extend(self, draws: Sequence[_Draw], logits: Tensor) -> None:
        """Draw one more token of each response that is not finished."""
        temperatures = torch.tensor([draw.request.temperature for draw in draws])
        top_p = torch.tensor([draw.request.top_p for draw in draws])
        # A stream per response: what else is in the batch has no part in it.
        uniforms = torch.tensor([draw.stream.random() for draw in draws], dtype=torch.float64)
        drawn = sample_tokens(logits, *(x.to(self._device) for x in (temperatures, top_p, uniforms)))
        logprobs = logits.log_softmax(-1).gather(-1, drawn[:, None])[:, 0]
        for draw, token, logprob in zip(draws, drawn.tolist(), logprobs.tolist(), strict=True):
            if draw.finish_reason:
                continue
            draw.tokens.append(token)
            draw.logprobs.append(logprob)
            if token in self._ends:
                draw.finish_reason = "stop"
            elif len(draw.tokens) == draw.limit:
                draw.finish_reason = "length"

    def _completion(self, draw: _Draw) -> Completion:
        shown = draw.tokens[:-1] if draw.finish_reason == "stop" else draw.tokens
        before = draw.prompt[-_TOKENS_BEFORE_TEXT:]
        text = self._decode([*before, *shown]).removeprefix(self._decode(before))
        # A character whose last bytes were cut off is left out, as vLLM does.
        return Completion(draw.tokens, draw.logprobs, text.rstrip("\ufffd"), draw.finish_reason)

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def sample_tokens(logits: Tensor, temperature: Tensor, top_p: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per row by the inverse of its distribution function, in the order of the vocabulary.

    Args:
        logits: (rows, vocabulary), float.
        temperature: (rows), 0: the most probable token.
        top_p: (rows), in (0, 1]: the fewest tokens of that probability together are kept.
        uniforms: (rows), float64 in [0, 1).

    Returns:
        Token ids (rows), int64.
    """
    greedy = temperature == 0
    probs = (logits.double() / temperature.masked_fill(greedy, 1.0)[:, None]).softmax(-1)
    if bool((top_p < 1).any()):
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        outside = ordered.cumsum(-1) - ordered >= top_p[:, None]
        probs = probs.masked_fill(outside.scatter(-1, order, outside), 0.0)
    cumulative = probs.cumsum(-1)
    drawn = torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True)[:, 0]
    return torch.where(greedy, logits.argmax(-1), drawn)


def _cache_bytes_per_token(model: PreTrainedModel) -> int:
    config = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * head_dim * model.dtype.itemsize
