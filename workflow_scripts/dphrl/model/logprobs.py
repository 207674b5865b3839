"""Loading a policy, and the forward pass that reference, training and canary share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, __version__

from dphrl.model.batch import Batch, Form, Row, collate
from dphrl.model.micro_batches import MicroBatch, PromptSharing, plan
from dphrl.model.packing import packing_obstacle
from dphrl.model.prompt_sharing import ATTENTION, sharing_obstacle

# "auto" packs rows where the model, its type and its device allow it, and pads them elsewhere.
Attention = Literal["auto", "packed", "padded"]

# Logits of one product with the head. They occupy 12 bytes each, with what is computed from them in float32: 0.2 GB on
# a CPU, 1 GB on a GPU, where a product of few tokens waits for the head's weights.
_LOGITS_PER_CHUNK = 1 << 24
_LOGITS_PER_CHUNK_ON_GPU = 5 << 24
# Attributes of models that change their logits after the head: Gemma, Cohere, Granite, Falcon-H1, Muse.
_AFTER_HEAD = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")


def check_model(folder: Path) -> None:
    """Check by its configuration that a model can be trained, before anything is sampled from it.

    Args:
        folder: of Hugging Face, with a config.json.

    Raises:
        ValueError: transformers does not include this model, or the model changes its logits after the head.
    """
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except ValueError as error:
        raise ValueError(
            f"{folder / 'config.json'}: not a model of transformers {__version__}, and code that comes with a model is"
            " never executed: use another base model, or a version of transformers that includes this one"
        ) from error
    _check_head(config.get_text_config())


def _check_head(config: PreTrainedConfig) -> None:
    for name in _AFTER_HEAD:
        if getattr(config, name, None) not in (None, 1):
            raise ValueError(
                f"model {config.model_type!r}: config attribute {name} = {getattr(config, name)} changes the"
                " logits after the output head, which log-probs here leave out: use a model without it"
            )


def load_model(folder: Path, dtype: str) -> PreTrainedModel:
    """A causal language model from a Hugging Face safetensors folder; no code in the folder is executed.

    Args:
        dtype: "float32" or "bfloat16".
    """
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, dtype), local_files_only=True, trust_remote_code=False, use_safetensors=True
    )


class LogProbs(nn.Module):
    """A causal language model as a function from rows to the log-probs of their response tokens.

    All are of the untruncated softmax at temperature 1, in float32. The hidden states are cut to the positions that
    predict a response token, and the head is applied in chunks (recomputed in the backward pass), so the logits of a
    whole batch never exist at once.

    Args:
        model: if its attention allows prompt sharing, it is changed in place to take shared batches too.
        attention: form of the batches that `plan` makes.

    Raises:
        ValueError: the model changes its logits after the head.
    """

    def __init__(self, model: PreTrainedModel, attention: Attention = "auto") -> None:
        super().__init__()
        self.model = model
        self.attention = attention
        self._config = model.config.get_text_config()
        _check_head(self._config)
        self._obstacle = sharing_obstacle(model)
        if self._obstacle is None:
            model.set_attn_implementation(ATTENTION)

    def prompt_sharing(self, wanted: PromptSharing) -> PromptSharing:
        """The wanted setting, but "off" instead of "auto" if this model cannot share prompts.

        Raises:
            ValueError: "on" is wanted of a model that cannot share prompts.
        """
        if self._obstacle is None or wanted == "off":
            return wanted
        if wanted == "on":
            raise ValueError(f"prompts cannot be shared: {self._obstacle}; set prompt sharing to 'auto' or 'off'")
        return "off"

    def form(self) -> Form:
        """How rows become a batch for this model on its present device.

        Raises:
            ValueError: the attention is "packed", which this model cannot take.
        """
        if self.attention == "padded":
            return "padded"
        obstacle = self._obstacle or packing_obstacle(self.model)
        if obstacle is None:
            return "packed"
        if self.attention == "packed":
            raise ValueError(f"rows cannot be packed: {obstacle}; set attention to 'auto' or 'padded'")
        return "padded"

    def plan(self, rows: Sequence[Row], token_budget: int, prompt_sharing: PromptSharing) -> list[MicroBatch]:
        """Micro-batches of rows as `micro_batches.plan` cuts them, in the form and with the sharing that are possible.

        Raises:
            ValueError: this model cannot do what is wanted of it.
        """
        return plan(rows, token_budget, self.prompt_sharing(prompt_sharing), self.form())

    def forward(self, batch: Batch, top: Tensor | None = None) -> tuple[Tensor, ...]:
        """Log-probs of the response tokens and the entropy at each position, and the log-probs of other tokens.

        Args:
            top: (response tokens of all rows, K), integer: token ids at each position.

        Returns:
            Two float32 tensors (response tokens of all rows, in row order); the entropy has no gradient. With `top` a
            third, (response tokens of all rows, K), with gradient.
        """
        ids = batch.targets[:, None] if top is None else torch.cat([batch.targets[:, None], top.to(batch.targets)], 1)
        found, entropy = self._in_chunks(_gathered, batch, ids)
        return (found[:, 0], entropy) if top is None else (found[:, 0], entropy, found[:, 1:])

    @torch.no_grad()
    def topk(self, batch: Batch, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probs of the response tokens, float32, and of the k likeliest tokens at each position, without gradient.

        Returns:
            Log-probs (response tokens of all rows, in row order), token ids (response tokens, k), int64, and their
            log-probs (response tokens, k), the largest first.

        Raises:
            ValueError: k is not in 1 .. vocabulary size.
        """
        if not 1 <= k <= self._config.vocab_size:
            raise ValueError(
                f"top-K with K = {k}: expected 1 to {self._config.vocab_size}, the vocabulary of the model"
            )

        def largest(logprobs: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
            values, likeliest = logprobs.topk(k)
            return logprobs.gather(1, ids)[:, 0], likeliest, values

        found, ids, logprobs = self._in_chunks(largest, batch, batch.targets[:, None])
        return found, ids, logprobs

    def _in_chunks(
        self, compute: Callable[[Tensor, Tensor], tuple[Tensor, ...]], batch: Batch, ids: Tensor
    ) -> list[Tensor]:
        """`compute` of all log-probs (positions, vocabulary) and the ids at these positions, chunk by chunk."""
        hidden = self._hidden(batch)
        logits = _LOGITS_PER_CHUNK if hidden.device.type == "cpu" else _LOGITS_PER_CHUNK_ON_GPU
        # The configuration's size, as under ZeRO-3 the head's weight is empty here.
        chunk = max(1, logits // self._config.vocab_size)
        head = self.model.get_output_embeddings()

        def run(hidden: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
            # Not head(): under ZeRO-3 each call would gather the weight, and ranks differ in their number of chunks.
            return compute(head.forward(hidden).float().log_softmax(dim=-1), ids)

        results = [
            checkpoint(run, h, i, use_reentrant=False) if torch.is_grad_enabled() and len(hidden) > chunk else run(h, i)
            for h, i in zip(hidden.split(chunk), ids.split(chunk), strict=True)
        ]
        return [torch.cat(tensors) for tensors in zip(*results, strict=True)]

    def _hidden(self, batch: Batch) -> Tensor:
        """Hidden states (response tokens of all rows, width) at the positions that predict them."""
        shared = {}
        if (layout := batch.layout) is not None:
            self.prompt_sharing("on")  # Raises if not possible.
            # Transformers passes a mask of four dimensions on unchanged; this attention does not use it.
            mask = layout.position_ids[None, None]
            shared = {"position_ids": layout.position_ids, "attention_mask": mask, "layout": layout}
        output = self.model.get_decoder()(input_ids=batch.input_ids, use_cache=False, **shared)
        return embedding(batch.predicts, output.last_hidden_state.flatten(0, 1))


def _gathered(logprobs: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    return logprobs.gather(1, ids), entropy


def response_logprobs(
    module: LogProbs,
    rows: Sequence[Row],
    token_budget: int,
    device: str = "cpu",
    prompt_sharing: PromptSharing = "off",
) -> list[Tensor]:
    """Log-probs of each row's response tokens, float32 on the CPU, in the order of `rows`, without gradient."""
    return logprobs_by_row(module, rows, module.plan(rows, token_budget, prompt_sharing), device)


def logprobs_by_row(
    module: nn.Module, rows: Sequence[Row], cut: Sequence[MicroBatch], device: str = "cpu"
) -> list[Tensor]:
    """As `response_logprobs`, for given micro-batches and any module that is called as `LogProbs` is."""
    return [parts[0] for parts in _by_row(module, rows, cut, device)]


def response_topk(
    module: LogProbs, rows: Sequence[Row], token_budget: int, k: int, device: str = "cpu"
) -> list[tuple[Tensor, ...]]:
    """As `LogProbs.topk`, separately for each row, on the CPU, in the order of `rows`."""
    return _by_row(lambda batch: module.topk(batch, k), rows, module.plan(rows, token_budget, "off"), device)


@torch.no_grad()
def _by_row(
    compute: Callable[[Batch], tuple[Tensor, ...]], rows: Sequence[Row], cut: Sequence[MicroBatch], device: str
) -> list[tuple[Tensor, ...]]:
    """`compute` of the response tokens, split by row."""
    result: list[tuple[Tensor, ...]] = [()] * len(rows)
    for micro_batch in cut:
        part = [rows[i] for i in micro_batch.rows]
        lengths = [len(row.response) for row in part]
        flat = compute(collate(part, device, micro_batch.shared, micro_batch.form))
        splits = zip(*(tensor.cpu().split(lengths) for tensor in flat), strict=True)
        for i, tensors in zip(micro_batch.rows, splits, strict=True):
            result[i] = tensors
    return result
