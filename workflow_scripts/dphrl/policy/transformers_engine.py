"""A Hugging Face model as an engine: batched sampling with a key-value cache, wherever PyTorch runs."""

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.data.tokens import load_tokenizer
from dphrl.machine.progress import ProgressLines
from dphrl.policy.decoding import Batch, Response, uniforms_of
from dphrl.policy.engine import AsleepError, Digest, check_prompts
from dphrl.policy.logprobs import device_of_job, load_model
from dphrl.policy.requests import Completion, Request
from dphrl.policy.response_tokens import TOKENS_BEFORE, decode, response_text, stop_tokens
from dphrl.policy.shared_cache import install_shared_cache

# Finished responses stay in the batch until they are this share of it, since each refill costs a prefill.
_FINISHED_SHARE = 1 / 8
_TOKENS_PER_PREFILL = 1 << 14


class TransformersEngine:
    """An engine on the weights of a Hugging Face folder, on the GPU where there is one (see `Engine`).

    A batch holds as many responses as `max_num_seqs` and the memory of the cache allow; new ones replace finished
    ones. Responses to one prompt share one copy of it in the cache (see `SharedCache`).

    Args:
        folder: model and tokenizer.
        config: dtype, lengths.
        hardware: memory, sequences at the same time.

    Raises:
        ValueError: the model's attention is not plain causal attention.
    """

    digests_suffice = True

    def __init__(self, folder: Path, config: EngineConfig, hardware: HardwareConfig) -> None:
        self.max_model_len = config.max_model_len
        self._device = device_of_job()
        self._model = load_model(folder, config.dtype).to(self._device).eval().requires_grad_(False)
        install_shared_cache(self._model)
        self._tokenizer = load_tokenizer(folder)
        self._ends = stop_tokens(folder, self._tokenizer, config.stop_token_ids)
        self._stop = config.stop
        self._max_num_seqs = hardware.max_num_seqs
        self._max_cached_tokens = int(hardware.kv_cache_gib * 2**30) // _cache_bytes_per_token(self._model)
        self._asleep = False

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        self._check_awake()
        check_prompts(requests, self.max_model_len)
        # The many requests to a prompt share one tuple.
        tuples: dict[tuple[int, ...], tuple[int, ...]] = {}
        responses = []
        for request in requests:
            prompt = tuple(request.prompt_token_ids)
            prompt = tuples.setdefault(prompt, prompt)
            limit = min(request.max_tokens, self.max_model_len - len(prompt))
            responses.append(Response(request, prompt, limit, uniforms_of(request.seed)))
        # The longest prompts first: a batch then needs little padding. Equal prompts follow each other and share it.
        waiting = deque(sorted(responses, key=lambda response: (-len(response.prompt), response.prompt)))
        progress, drawn = ProgressLines(len(responses), label, "responses"), 0
        with torch.inference_mode():
            stopped = {"stopped": self._has_stop_text} if self._stop else {}
            batch = Batch(self._model, self._ends, self._max_cached_tokens, **stopped)
            while waiting or batch.responses:
                while fresh := self._admit(waiting, batch):
                    batch.admit(fresh)
                while batch.finished < _FINISHED_SHARE * len(batch.responses):
                    batch.extend()
                    drawn += len(batch.responses) - batch.finished
                    progress.at_work(f"{drawn:,} tokens")
                progress.update(batch.finished, f"{drawn:,} tokens")
                batch.drop_finished()
        progress.close()
        return [self._completion(response) for response in responses]

    @torch.no_grad()
    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        """Computes the logits of the whole text at once: for short texts."""
        self._check_awake()
        ids = torch.tensor(token_ids, device=self._device)
        logits = self._model(input_ids=ids[None], use_cache=False).logits[0, :-1].float()
        return logits.log_softmax(-1).gather(-1, ids[1:, None])[:, 0].cpu()

    def digests(self) -> dict[str, Digest]:
        return {name: Digest.of(tensor) for name, tensor in self._model.named_parameters()}

    def sleep(self) -> None:
        self._asleep = True
        self._model.to("cpu")
        torch.cuda.empty_cache()

    @torch.no_grad()
    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """The model goes back to its device, and these weights replace its own.

        Raises `ValueError` where the model has no weight of that name and shape.
        """
        self._model.to(self._device)
        own = dict(self._model.named_parameters(remove_duplicate=False))
        for name, tensor in weights:
            if name not in own or own[name].shape != tensor.shape:
                held = f"one of shape {tuple(own[name].shape)}" if name in own else "none of that name"
                raise ValueError(f"weight {name} of shape {tuple(tensor.shape)} was pushed: the engine has {held}")
            own[name].copy_(tensor)
        self._asleep = False

    def _check_awake(self) -> None:
        if self._asleep:
            raise AsleepError

    def _admit(self, waiting: deque[Response], batch: Batch) -> list[Response]:
        """Remove from `waiting` the responses that fit next to the batch, at most one prefill."""
        prompts = set(batch.prompts)
        longest_prompt = max(map(len, prompts), default=0)
        longest_response = max((response.limit for response in batch.responses), default=0)
        fresh: list[Response] = []
        fresh_tokens = 0
        while waiting and (rows := len(batch.responses) + len(fresh) + 1) <= self._max_num_seqs:
            response = waiting[0]
            if response.prompt not in prompts:
                fresh_tokens += len(response.prompt)
            prompts.add(response.prompt)
            longest_prompt = max(longest_prompt, len(response.prompt))
            longest_response = max(longest_response, response.limit)
            cached = len(prompts) * longest_prompt + rows * longest_response
            full = cached > self._max_cached_tokens or (fresh and fresh_tokens > _TOKENS_PER_PREFILL)
            # One response is always admitted.
            if full and rows > 1:
                break
            fresh.append(waiting.popleft())
        return fresh

    def _completion(self, response: Response) -> Completion:
        text = response_text(self._tokenizer, self._ends, response.prompt, response.tokens)
        for stop in self._stop:
            text = text.partition(stop)[0]
        return Completion(response.tokens, response.logprobs, text, response.finish_reason)

    def _has_stop_text(self, tokens: Sequence[int]) -> bool:
        """Whether a stop text is in the end of a response: in as many tokens as it has bytes, and some before."""
        longest = max(len(stop.encode()) for stop in self._stop)
        text = decode(self._tokenizer, tokens[-longest - TOKENS_BEFORE :])
        return any(stop in text for stop in self._stop)


def _cache_bytes_per_token(model: PreTrainedModel) -> int:
    config = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * head_dim * model.dtype.itemsize
