"""Loading a policy, and the forward pass that reference, training and canary share."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from dphrl.machine.private import use_private_caches
from dphrl.policy.batch import Batch, Form, MicroBatch, PromptSharing, Row, collate, plan
from dphrl.policy.packing import packing_obstacle
from dphrl.policy.prompt_sharing import ATTENTION, sharing_obstacle

# "auto" packs rows where the model, its type and its device allow it, and pads them elsewhere.
Attention = Literal["auto", "packed", "padded"]

# Logits of one product with the head. With later values in float32 they occupy 12 bytes each: 50 MB on a CPU, 1 GB
# on a GPU, where a product of few tokens waits for the head's weights. On a CPU 85 rows of a vocabulary of 49,152 are
# as fast as 341, and a training needs 0.3 GB less.
_LOGITS_PER_CHUNK = 1 << 22
_LOGITS_PER_CHUNK_ON_GPU = 5 << 24
# Tensors that an error names.
_NAMED = 3
# transformers chooses both, and not the config.json of a folder, which may name code to download.
OWN_CHOICE: dict[str, Any] = {"attn_implementation": None, "experts_implementation": None}
_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
# Attributes of models that change their logits after the head: Gemma, Cohere, Granite, Falcon-H1, Muse.
_AFTER_HEAD = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "output_multiplier")


def check_head(config: PreTrainedConfig) -> None:
    """Raise `ValueError` for a model that changes its logits after the head."""
    for name in _AFTER_HEAD:
        if getattr(config, name, None) not in (None, 1):
            raise ValueError(
                f"model {config.model_type!r}: config attribute {name} = {getattr(config, name)} changes the"
                " logits after the output head, which log-probs here leave out: use a model without it"
            )


def device_of_job() -> str:
    """The device of a job that is alone on it: the GPU, if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def use_free_cores() -> None:
    """Threads for the cores without work: they wait for each other, so one without a core makes all of them slow."""
    free = len(os.sched_getaffinity(0)) - round(os.getloadavg()[0])
    torch.set_num_threads(max(1, min(torch.get_num_threads(), free)))


def load_model(folder: Path, dtype: str) -> PreTrainedModel:
    """A causal language model from a Hugging Face safetensors folder; no code in the folder is executed.

    Args:
        dtype: "float32" or "bfloat16".

    Raises:
        ValueError: the folder holds an adapter, or not all tensors of the model and no others, or two for a tied one.
    """
    use_private_caches()
    refuse_adapter(folder)
    model = filled(AutoModelForCausalLM, folder, folder, dtype=getattr(torch, dtype), use_safetensors=True)
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if getattr(model.config, "tie_word_embeddings", False) and head.weight is not embeddings.weight:
        raise ValueError(untied(folder))
    try:
        model.generation_config.validate(strict=True)
    except ValueError:
        # transformers does not save flags that contradict each other; engines here read the end tokens alone.
        values = ((name, getattr(model.generation_config, name)) for name in _TOKENS)
        model.generation_config = GenerationConfig(**{name: token for name, token in values if token not in (None, -1)})
    return model


def untied(folder: Path) -> str:
    """The message for a folder whose stored head is not the embeddings, although config.json says that they are one."""
    return (
        f"{folder}: config.json has tie_word_embeddings: true, but the stored output head differs from the embeddings:"
        " vLLM would ignore it. Set tie_word_embeddings: false, or remove the tensor of the head"
    )


def refuse_adapter(folder: Path) -> None:
    """Raise `ValueError` for a folder with an adapter: transformers would apply it, vLLM would not."""
    file = folder / "adapter_config.json"
    if file.exists():
        raise ValueError(
            f"{file}: {folder} is an adapter, or a model with one; only the model would be sampled from. Merge it first"
            " (peft: model.merge_and_unload(), then save_pretrained in another folder), or remove its files"
        )


def filled(kind: Any, folder: Path, source: Path | None, **options: Any) -> PreTrainedModel:
    """A model with exactly its own weights; tied weights and buffers that old versions stored do not count.

    Args:
        kind: a class with `from_pretrained`.
        folder: of the weights, for the message.
        source: folder to load; None: the weights are in `options`.

    Raises:
        ValueError: a tensor is missing, of another shape, or not of this model.
    """
    disable_progress_bar()
    checks = {"output_loading_info": True, "ignore_mismatched_sizes": True, **OWN_CHOICE}
    try:
        model, facts = kind.from_pretrained(source, local_files_only=True, trust_remote_code=False, **checks, **options)
    except RuntimeError as error:
        if "conversion of the weights" not in str(error):
            raise
        raise _other_weights(folder, "some are missing, see the report above") from error
    shapes = [f"{name} of shape {tuple(ours)} instead of {tuple(its)}" for name, ours, its in facts["mismatched_keys"]]
    kinds = {"no": facts["missing_keys"], "unknown": facts["unexpected_keys"], "wrong": shapes}
    problems = [
        f"{what} {', '.join(sorted(names)[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}"
        for what, names in kinds.items()
        if names
    ]
    if problems:
        raise _other_weights(folder, "; ".join(problems))
    return model


def _other_weights(folder: Path, problem: str) -> ValueError:
    return ValueError(
        f"{folder}: its weights are not those of the model in config.json: {problem}. Download the model again, or use"
        " the config.json that belongs to these weights"
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
        check_head(self._config)
        self._obstacle = sharing_obstacle(model)
        if self._obstacle is None:
            model.set_attn_implementation(ATTENTION)

    @property
    def device(self) -> str:
        """Where the weights are."""
        return str(self.model.device)

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
        """Cut rows into micro-batches by `batch.plan`, packed or padded as this model allows.

        Args:
            token_budget: most tokens of a micro-batch.
            prompt_sharing: `hardware.prompt_sharing`, whether rows with one prompt compute it once.

        Raises:
            ValueError: `hardware` asks for shared prompts or packed rows, and this model cannot have them.
        """
        return plan(rows, token_budget, self.prompt_sharing(prompt_sharing), self.form())

    def forward(self, batch: Batch, top: Tensor | None = None, likeliest: int = 0) -> tuple[Tensor, ...]:
        """Log-probs of the response tokens and the entropy at each position, and the log-probs of other tokens.

        Args:
            top: (response tokens of all rows, K), integer: token ids at each position.
            likeliest: above 0, the result is the result of `topk` with this K.

        Returns:
            Two float32 tensors (response tokens of all rows, in row order); the entropy is without gradient. With `top`
            a third, (response tokens of all rows, K), with gradient.
        """
        if likeliest:
            return tuple(self._in_chunks(partial(_largest, k=likeliest), batch, batch.targets[:, None]))
        ids = batch.targets[:, None] if top is None else torch.cat([batch.targets[:, None], top.to(batch.targets)], 1)
        logprobs, entropy = self._in_chunks(_gathered, batch, ids)
        return (logprobs[:, 0], entropy) if top is None else (logprobs[:, 0], entropy, logprobs[:, 1:])

    @torch.no_grad()
    def topk(self, batch: Batch, k: int) -> tuple[Tensor, ...]:
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

        # A call of the module, as ZeRO-3 gathers and frees weights by its hooks.
        return self(batch, likeliest=k)

    def _in_chunks(
        self, compute: Callable[[Tensor, Tensor], tuple[Tensor, ...]], batch: Batch, ids: Tensor
    ) -> list[Tensor]:
        """`compute` of all log-probs (positions, vocabulary) and the ids at these positions, chunk by chunk.

        With gradients and several chunks it must be `_gathered`.
        """
        hidden = self._hidden(batch)
        logits = _LOGITS_PER_CHUNK if hidden.device.type == "cpu" else _LOGITS_PER_CHUNK_ON_GPU
        # The configuration's size, as under ZeRO-3 the head's weight is empty here.
        chunk = max(1, logits // self._config.vocab_size)
        # Not head(): under ZeRO-3 each call would gather the weight, and ranks differ in their number of chunks.
        head = self.model.get_output_embeddings()
        weight, bias = head.weight, head.bias
        for name in getattr(head, "active_adapters", ()):
            weight = weight + head.get_delta_weight(name).to(weight)
        recompute = torch.is_grad_enabled() and len(hidden) > chunk
        results = [
            _Recomputed.apply(h, weight, bias, i) if recompute else compute(_log_softmax(h, weight, bias), i)
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


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Log-probs (positions, vocabulary), at least float32."""
    return linear(hidden, weight, bias).log_softmax(dim=-1, dtype=torch.promote_types(hidden.dtype, torch.float32))


def _gathered(logprobs: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probs of the ids, and the entropy at each position without gradient."""
    with torch.no_grad():
        entropy = -logprobs.exp().mul_(logprobs).sum(dim=-1)
    return logprobs.gather(1, ids), entropy


class _Recomputed(torch.autograd.Function):
    """`_gathered` of a chunk, whose log-probs are computed again in the backward pass instead of kept.

    The gradient of the logits is made in place: minus the probabilities times the sum of a position's gradients, plus
    these gradients at the ids.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, ids: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, bias, ids)
        logprobs, entropy = _gathered(_log_softmax(hidden, weight, bias), ids)
        ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ids = ctx.saved_tensors
        of_logits = _log_softmax(hidden, weight, bias).exp_().mul_(-grad.sum(dim=1, keepdim=True))
        of_logits = of_logits.scatter_add_(1, ids, grad).to(hidden.dtype)
        of_weight = of_logits.T @ hidden if ctx.needs_input_grad[1] else None  # A frozen head has none.
        return of_logits @ weight, of_weight, None if bias is None else of_logits.sum(dim=0), None


def _largest(logprobs: Tensor, ids: Tensor, k: int) -> tuple[Tensor, ...]:
    values, likeliest = logprobs.topk(k)
    return logprobs.gather(1, ids)[:, 0], likeliest, values


def response_logprobs(
    module: LogProbs, rows: Sequence[Row], token_budget: int, prompt_sharing: PromptSharing = "off"
) -> list[Tensor]:
    """Log-probs of each row's response tokens, float32 on the CPU, in the order of `rows`, without gradient.

    They are computed where the module is.
    """
    cut = module.plan(rows, token_budget, prompt_sharing)
    return [logprobs for logprobs, _ in by_row(module, rows, cut, module.device)]


@torch.no_grad()
def by_row(
    compute: Callable[[Batch], tuple[Tensor, ...]], rows: Sequence[Row], cut: Sequence[MicroBatch], device: str
) -> list[tuple[Tensor, ...]]:
    """`compute` of the response tokens, split by row, on the CPU; () for a row that is in no micro-batch."""
    result: list[tuple[Tensor, ...]] = [()] * len(rows)
    for micro_batch in cut:
        part = [rows[i] for i in micro_batch.rows]
        lengths = [len(row.response) for row in part]
        flat = compute(collate(part, device, micro_batch.shared, micro_batch.form))
        splits = zip(*(tensor.cpu().split(lengths) for tensor in flat), strict=True)
        for i, tensors in zip(micro_batch.rows, splits, strict=True):
            result[i] = tensors
    return result
