"""Batched sampling from a model: one token of every response per step."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.policy.requests import Request
from dphrl.policy.shared_cache import SharedCache, compacted

_UNIFORMS_PER_BLOCK = 64
# Log-probs of the rows whose tokens are drawn together on a CPU: eight rows of a large vocabulary, all of a small one.
# They stay in its cache, and are so few that the allocator uses their memory again: fresh pages for 256 rows of a large
# vocabulary cost more than the arithmetic.
_VALUES_ON_CPU = 1 << 19
# From this vocabulary on, a nucleus row by row is faster on a CPU than a sort of all values.
_LARGE_VOCABULARY = 4096


@dataclass
class Response:
    """An unfinished or finished response.

    Attributes:
        limit: maximum number of its tokens.
        uniforms: the random numbers in [0, 1) that its tokens are drawn with, one per position.
        finish_reason: empty while it is unfinished.
    """

    request: Request
    prompt: tuple[int, ...]
    limit: int
    uniforms: Iterator[float]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str = ""


@dataclass(frozen=True)
class Settings:
    """How the token of each row is drawn.

    Attributes:
        temperature: (rows, 1), float; 1 in greedy rows.
        top_p: (rows, 1), float, infinity for no truncation; None if no row is truncated.
        greedy: (rows), bool: whether a row takes the most probable token; None if no row does.
    """

    temperature: Tensor
    top_p: Tensor | None
    greedy: Tensor | None

    @classmethod
    def of(cls, requests: Sequence[Request], device: torch.device | str) -> Self:
        """The settings of these requests."""
        top_p = [request.top_p if request.top_p < 1 else float("inf") for request in requests]
        greedy = [request.temperature == 0 for request in requests]
        return cls(
            torch.tensor([request.temperature or 1.0 for request in requests], device=device)[:, None],
            torch.tensor(top_p, device=device)[:, None] if min(top_p, default=1) < 1 else None,
            torch.tensor(greedy, device=device) if any(greedy) else None,
        )

    def of_rows(self, rows: slice) -> Self:
        """The settings of some of the rows."""
        top_p, greedy = (None if values is None else values[rows] for values in (self.top_p, self.greedy))
        return replace(self, temperature=self.temperature[rows], top_p=top_p, greedy=greedy)


class Batch:
    """Responses in a model's cache; finished ones stay until `drop_finished`.

    Args:
        model: prepared by `install_shared_cache`.
        ends: tokens that end a response.
        max_cached_tokens: capacity in tokens that the cache may keep allocated.
        stopped: whether the tokens of an unfinished response end it by their text.

    Attributes:
        responses: unfinished ones, and those finished since the last `drop_finished`.
        finished: number of finished ones among them.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        ends: frozenset[int],
        max_cached_tokens: int,
        stopped: Callable[[Sequence[int]], bool] = lambda tokens: False,
    ) -> None:
        self._stopped = stopped
        self._cache, self._device, self._ends = SharedCache(model, max_cached_tokens), model.device, ends
        self._last = torch.zeros(0, dtype=torch.int64, device=self._device)
        self._set([])

    @property
    def prompts(self) -> Sequence[tuple[int, ...]]:
        """The prompts in the cache."""
        return self._cache.prompts

    def admit(self, responses: list[Response]) -> None:
        """Add new responses, at least one, and draw the first token of each."""
        self._set([*self.responses, *responses])
        logits = self._cache.admit([response.prompt for response in responses], self._longest)
        settings = Settings.of([response.request for response in responses], self._device)
        self._last = torch.cat([self._last, self._draw(logits, responses, settings)])

    def extend(self) -> None:
        """Draw the next token of each response."""
        self._last = self._draw(self._cache.step(self._last), self.responses, self._settings)

    def drop_finished(self) -> None:
        """Remove the finished responses."""
        unfinished = compacted([i for i, response in enumerate(self.responses) if not response.finish_reason])
        self._set([self.responses[i] for i in unfinished])
        self._cache.keep(unfinished, self._longest)
        self._last = self._last[unfinished]

    @property
    def _longest(self) -> int:
        return max((response.limit for response in self.responses), default=0)

    def _set(self, responses: list[Response]) -> None:
        self.responses = responses
        self.finished = sum(bool(response.finish_reason) for response in responses)
        self._settings = Settings.of([response.request for response in responses], self._device)

    def _draw(self, logits: Tensor, responses: list[Response], settings: Settings) -> Tensor:
        """Draw a token of each of these responses, and append it to the unfinished ones."""
        # A response does not depend on the rest of the batch: its random numbers come from its own stream.
        uniforms = torch.tensor([next(response.uniforms) for response in responses], dtype=torch.float64)
        together = max(1, _VALUES_ON_CPU // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
        tokens, of_tokens = [], []
        for rows in (slice(first, first + together) for first in range(0, len(logits), together)):
            logprobs = logits[rows].float().log_softmax(-1)
            if logprobs[:, 0].isnan().any():
                raise ValueError(
                    "the policy's log-probs are not numbers; if this run trained it, set a lower train.lr (of the "
                    "base: policy.supervised.lr), else try float32"
                )
            tokens.append(sample_tokens(logprobs, settings.of_rows(rows), uniforms[rows].to(logits.device)))
            of_tokens.append(logprobs.gather(-1, tokens[-1][:, None])[:, 0])
        drawn, drawn_logprobs = torch.cat(tokens), torch.cat(of_tokens)
        for response, token, logprob in zip(responses, drawn.tolist(), drawn_logprobs.tolist(), strict=True):
            if response.finish_reason:
                continue
            response.tokens.append(token)
            response.logprobs.append(logprob)
            if token in self._ends or self._stopped(response.tokens):
                response.finish_reason = "stop"
            elif len(response.tokens) == response.limit:
                response.finish_reason = "length"
            self.finished += bool(response.finish_reason)
        return drawn


def uniforms_of(seed: int) -> Iterator[float]:
    """The endless stream of random numbers in [0, 1) of this seed, generated in blocks for speed."""
    stream = np.random.Generator(np.random.Philox(key=seed))
    while True:
        yield from stream.random(_UNIFORMS_PER_BLOCK).tolist()


def sample_tokens(logits: Tensor, settings: Settings, uniforms: Tensor) -> Tensor:
    """Draw one token per row by the inverse of its distribution function, in the order of the vocabulary.

    Args:
        logits: (rows, vocabulary), float; log-probs give the same result.
        settings: of the rows.
        uniforms: (rows), float64 in [0, 1).

    Returns:
        Token ids (rows), int64.
    """
    probs = (logits / settings.temperature).softmax(-1)
    if settings.top_p is not None and probs.device.type == "cpu" and probs.shape[1] >= _LARGE_VOCABULARY:
        drawn = draw_by_row(probs, settings.top_p, uniforms)
    else:
        drawn = draw_together(probs, settings.top_p, uniforms)
    return drawn if settings.greedy is None else torch.where(settings.greedy, logits.argmax(-1), drawn)


def draw_by_row(probs: Tensor, top_p: Tensor, uniforms: Tensor) -> Tensor:
    """As `sample_tokens`, on a CPU: row by row, without a sort of the whole vocabulary."""
    drawn = []
    for row, limit, uniform in zip(probs.numpy(), top_p[:, 0].tolist(), uniforms.tolist(), strict=True):
        kept = np.arange(len(row))
        if limit < math.inf:
            # The likeliest tokens hold the nucleus as soon as they have top_p together.
            for least in (1e-3, (1 - limit) / 2 / len(row), 0.0):
                kept = np.flatnonzero(row >= least)
                if row[kept].sum(dtype=np.float64) >= limit:
                    break
            kept = kept[_nucleus(row[kept], limit)]
        # Summed in double precision: in float32 the sum over a vocabulary would lose the rare tokens.
        cumulative = row[kept].cumsum(dtype=np.float64)
        drawn.append(kept[cumulative.searchsorted(uniform * cumulative[-1], side="right")])
    return torch.from_numpy(np.array(drawn))


def _nucleus(probs: np.ndarray, top_p: float) -> np.ndarray:
    """The fewest tokens with at least top_p in sum, as bool; ties go to the lower token id."""
    ordered = np.sort(probs)[::-1].astype(np.float64)
    count = int((ordered.cumsum() - ordered < top_p).sum())
    least = ordered[count - 1]
    above, tied = probs > least, probs == least
    kept: np.ndarray = above | tied & (tied.cumsum() <= count - above.sum())
    return kept


def draw_together(probs: Tensor, top_p: Tensor | None, uniforms: Tensor) -> Tensor:
    """As `draw_by_row`, with all rows and all tokens in each operation."""
    if top_p is not None:
        # On a CPU NumPy sorts many times as fast as PyTorch.
        on_cpu = probs.device.type == "cpu"
        ascending = torch.from_numpy(np.sort(probs.numpy())) if on_cpu else probs.sort(dim=-1).values
        ordered = ascending.flip(-1).double()
        count = (ordered.cumsum(-1) - ordered < top_p).sum(-1, keepdim=True)
        least = ordered.gather(-1, count - 1).to(probs.dtype)
        above, tied = probs > least, probs == least
        probs = probs * (above | tied & (tied.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True)[:, 0]
