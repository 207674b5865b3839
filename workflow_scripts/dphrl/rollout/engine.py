"""What an engine is: responses, log-probs of a given text, weights that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dphrl.config.blocks.engine import EngineConfig
from dphrl.rollout.requests import Completion, Request


class Digest(NamedTuple):
    """What a tensor holds, in short: equal tensors have equal digests, others hardly ever."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: int

    @classmethod
    def of(cls, tensor: Tensor) -> Digest:
        """The digest of a tensor, computed on its device."""
        return cls(tuple(tensor.shape), tensor.dtype, int(torch.hash_tensor(tensor).view(torch.int64)))


class Engine(Protocol):
    """Draws responses from a policy, in the process of its caller.

    A response is a function of weights, prompt and seed: not of the requests that are drawn with it.
    """

    @property
    def max_model_len(self) -> int:
        """Longest sequence (prompt and response) in tokens."""

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request, in order; with `label`, progress lines under that name.

        A response ends with an end token of the model ("stop"), or at max_tokens or max_model_len ("length").

        Raises:
            ValueError: a prompt is empty or leaves no room for a response.
            AsleepError: the engine sleeps (so do all methods but `wake`).
        """

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        """Log-probs of token_ids[1:] given what precedes each, float32 (len(token_ids) - 1), temperature 1."""

    def push(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the weights (Hugging Face names) and forget whatever was computed with the old ones.

        Weights are taken one by one, so an iterator may gather each when it is asked for; it is run to its end. A
        tensor may be held until its layer is whole: its memory must not be used again.
        """

    def digests(self) -> dict[str, Digest]:
        """What the engine holds, under the names of `push`; tensors that it keeps in another form may be missing."""

    def sleep(self) -> None:
        """Give the accelerator's memory back; the weights may be lost."""

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take these weights as `push` does, out of sleep where the engine sleeps."""


def make_engine(folder: Path, config: EngineConfig, *, distributed: bool = False) -> Engine:
    """The engine that `config` names, on the weights of a Hugging Face folder.

    Args:
        folder: model and tokenizer.
        config: which engine; dtype, lengths, memory.
        distributed: the engine runs inside an initialised process group, beside a trainer.
    """
    # Imported when asked for: a machine may have only one of them.
    if config.name == "transformers":
        from dphrl.rollout.transformers_engine import TransformersEngine

        return TransformersEngine(folder, config)
    from dphrl.rollout.vllm_engine import VllmEngine

    return VllmEngine(folder, config, distributed=distributed)


class AsleepError(RuntimeError):
    """A sleeping engine was asked for something but to wake; its weights may be lost."""

    def __init__(self) -> None:
        super().__init__("the engine sleeps, and its weights may be lost: call wake(weights) first")


def check_prompts(requests: Sequence[Request], max_model_len: int) -> None:
    """Refuse prompts that no response can follow.

    Raises:
        ValueError: a prompt is empty, or no shorter than `max_model_len`.
    """
    for request in requests:
        length = len(request.prompt_token_ids)
        if not 0 < length < max_model_len:
            raise ValueError(
                f"prompt {request.prompt_id} has {length} tokens: expected at least 1, and fewer than "
                f"engine.max_model_len ({max_model_len}) to leave room for a response; raise that, or drop the prompt"
            )
