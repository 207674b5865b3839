"""What every engine can do: responses, log-probs of a given text, and replaceable weights."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from dphrl.policy.requests import Completion, Request


class Digest(NamedTuple):
    """Fingerprint of a tensor: equal tensors have equal digests, different ones almost never."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: int

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """The digest of a tensor, computed on its device."""
        return cls(tuple(tensor.shape), tensor.dtype, int(torch.hash_tensor(tensor).view(torch.int64)))


class Engine(Protocol):
    """Draws responses from a policy, in the caller's process.

    A response depends on weights, prompt and seed only, not on the requests drawn in the same batch.
    """

    @property
    def max_model_len(self) -> int:
        """Longest sequence (prompt and response) in tokens."""

    @property
    def digests_suffice(self) -> bool:
        """True if it computes with the tensors of `digests` alone, so that no graph, cache or copy can be older."""

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request, in order; with `label`, progress lines under that name.

        A response ends with an end token of the model ("stop"), or at max_tokens or max_model_len ("length").

        Raises:
            ValueError: a prompt is empty or leaves no room for a response.
            AsleepError: the engine sleeps (all methods but `wake` raise it).
        """

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        """Log-probs of token_ids[1:], each after the tokens before it, float32 (len(token_ids) - 1), temperature 1."""

    def digests(self) -> dict[str, Digest]:
        """Digests of the engine's weights, under the names of `wake`; weights kept in another form may be missing."""

    def sleep(self) -> None:
        """Free the accelerator's memory; the weights may be lost."""

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights (Hugging Face names), drop everything computed with the old ones, and end a sleep.

        Weights are read one by one, so an iterator may gather each on demand; it is always exhausted. The engine may
        hold a tensor until its layer is complete: the caller must not reuse its memory.
        """


class AsleepError(RuntimeError):
    """A sleeping engine, whose weights may be lost, was called for anything but to wake."""

    def __init__(self) -> None:
        super().__init__("the engine sleeps, and its weights may be lost: call wake(weights) first")


def check_prompts(requests: Sequence[Request], max_model_len: int) -> None:
    """Raises `ValueError` for a prompt that is empty, or that leaves no room for a response."""
    for request in requests:
        length = len(request.prompt_token_ids)
        if not 0 < length < max_model_len:
            raise ValueError(
                f"prompt {request.prompt_id} has {length} tokens: expected at least 1, and fewer than "
                f"engine.max_model_len ({max_model_len}) to leave room for a response; raise that, or drop the prompt"
            )
