"""Responses that are drawn together from a model, one token of each at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.rollout.requests import Request
from dphrl.rollout.shared_cache import SharedCache

_UNIFORMS_PER_BLOCK = 64


@dataclass
class Response:
    """A response in the making.

    Attributes:
        prompt: one object for all requests with these tokens.
        limit: most tokens it may have.
        uniforms: gives the number in [0, 1) that decides each of its tokens, one per position.
        finish_reason: empty until it is finished.
    """

    request: Request
    prompt: tuple[int, ...]
    limit: int
    uniforms: Iterator[float]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str = ""


class Batch:
    """Responses in a model's cache; those that finish stay until they are dropped.

    Args:
        model: one that `install_shared_cache` prepared.
        responses: at least one, none of them begun: each gets its first token.
        ends: tokens that end a response.

    Attributes:
        responses: those that go on, and those that finished since the last `drop_finished`.
        finished: how many of them finished.
    """

    def __init__(self, model: PreTrainedModel, responses: list[Response], ends: frozenset[int]) -> None:
        self._model, self._ends = model, ends
        self._take(responses)
        prompts = {id(response.prompt): response.prompt for response in responses}
        place = {prompt: i for i, prompt in enumerate(prompts)}
        owner = [place[id(response.prompt)] for response in responses]
        longest = max(response.limit for response in responses)
        self._cache, logits = SharedCache.prefill(model, list(prompts.values()), owner, longest)
        self._last = self._draw(logits[owner])

    @property
    def prompts(self) -> int:
        """How many prompts the cache holds."""
        return self._cache.prompts

    def extend(self) -> None:
        """Draw one more token of each response."""
        self._last = self._draw(self._cache.step(self._model, self._last))

    def drop_finished(self) -> None:
        """Take out what finished; of a batch of which nothing is left, the cache is no longer of use."""
        going = [i for i, response in enumerate(self.responses) if not response.finish_reason]
        self._take([self.responses[i] for i in going])
        if going:
            self._cache.keep(going, max(response.limit for response in self.responses))
            self._last = self._last[going]

    def join(self, other: Batch) -> None:
        """Take in the responses of another batch."""
        self._take(self.responses + other.responses)
        self._cache.join(other._cache)
        self._last = torch.cat([self._last, other._last])

    def _take(self, responses: list[Response]) -> None:
        self.responses = responses
        self.finished = sum(bool(response.finish_reason) for response in responses)
        requests, device = [response.request for response in responses], self._model.device
        self._temperature = torch.tensor([request.temperature for request in requests], device=device)
        self._top_p = torch.tensor([request.top_p for request in requests], device=device)

    def _draw(self, logits: Tensor) -> Tensor:
        """Draw a token of each response, and note it where the response is not finished."""
        # A stream per response: what else is in the batch has no part in it.
        uniforms = torch.tensor([next(response.uniforms) for response in self.responses], dtype=torch.float64)
        logprobs = logits.log_softmax(-1)
        drawn = sample_tokens(logprobs, self._temperature, self._top_p, uniforms.to(logits.device))
        of_drawn = logprobs.gather(-1, drawn[:, None])[:, 0]
        for response, token, logprob in zip(self.responses, drawn.tolist(), of_drawn.tolist(), strict=True):
            if response.finish_reason:
                continue
            response.tokens.append(token)
            response.logprobs.append(logprob)
            if token in self._ends:
                response.finish_reason = "stop"
            elif len(response.tokens) == response.limit:
                response.finish_reason = "length"
            self.finished += bool(response.finish_reason)
        return drawn


def uniforms_of(seed: int) -> Iterator[float]:
    """Numbers in [0, 1) without end, those of this seed; made in blocks, which cost less than one by one."""
    stream = np.random.Generator(np.random.Philox(key=seed))
    while True:
        yield from stream.random(_UNIFORMS_PER_BLOCK).tolist()


def sample_tokens(logits: Tensor, temperature: Tensor, top_p: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per row by the inverse of its distribution function, in the order of the vocabulary.

    Args:
        logits: (rows, vocabulary), float; log-probs are as good.
        temperature: (rows), 0: the most probable token.
        top_p: (rows), in (0, 1]: the fewest tokens of that probability together are kept.
        uniforms: (rows), float64 in [0, 1).

    Returns:
        Token ids (rows), int64.
    """
    greedy = temperature == 0
    probs = (logits / temperature.masked_fill(greedy, 1.0)[:, None]).softmax(-1)
    # Sums over a whole vocabulary are in double precision: in float32 they would lose the rare tokens.
    if bool((top_p < 1).any()):
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        outside = ordered.cumsum(-1, dtype=torch.float64) - ordered >= top_p[:, None]
        probs = probs.masked_fill(outside.scatter(-1, order, outside), 0.0)
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    drawn = torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True)[:, 0]
    return torch.where(greedy, logits.argmax(-1), drawn)
