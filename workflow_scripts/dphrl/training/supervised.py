"""The supervised start: a model learns the responses of rows before anything is sampled from it; one process.

The state of an interrupted training is on disk: the next job goes on from it and ends in the same bytes.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from dphrl.config.blocks.policy import SupervisedConfig, SupervisedTraining
from dphrl.data.fields import Fields, MalformedError, show
from dphrl.data.prompts import messages_of
from dphrl.data.records import SourceError, is_unicode
from dphrl.data.tokens import TemplateError, encoder, end_token, load_tokenizer
from dphrl.policy.batch import Row, collate
from dphrl.policy.logprobs import LogProbs, device_of_job, load_model
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import replacing
from dphrl.training.schedule import step_of_epochs

_STATE: Final = "state.safetensors"
# A state of 135 million weights is 1.6 GB, which takes seconds.
_SECONDS_BETWEEN_STATES: Final = 120.0
_ASSISTANT: Final = "assistant"
_OF_ADAM: Final = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Start:
    """A model before its supervised start, and what it will learn.

    Attributes:
        rows: prompts as they are sampled from, and responses with their end token.
        left_out: number of rows with more tokens than `max_tokens`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    rows: list[Row]
    left_out: int = 0

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as a Hugging Face folder."""
        disable_progress_bar()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def supervised_start(
    policy: Path, source_rows: Sequence[Mapping[str, Any]], template: str, config: SupervisedConfig
) -> Start:
    """A model in float32 and the rows of a source as tokens, prompts by the template of the run.

    A response is the field `config.response`; without that field it is the last message, which is the assistant's.

    Args:
        policy: folder of the model.
        source_rows: rows of the source, as `read_source` gives them.
        template: chat or plain; after chat a response ends as the template ends a turn.

    Raises:
        SourceError: a row without prompt or response, or no row of at most `config.max_tokens` tokens.
        ValueError: the tokenizer has no end token, or no template for `chat`.
    """
    model, tokenizer = load_model(policy, "float32"), load_tokenizer(policy)
    encode = encoder(policy, "chat" if template == "chat" else "plain")
    end = end_token(tokenizer, policy, template)
    if end is None:
        raise ValueError(f"{policy}: its tokenizer has no end token, so no response would end; give it an eos_token")
    fields = Fields(config.fields)
    rows = []
    for number, row in enumerate(source_rows):
        try:
            messages = messages_of(row, "", {}, fields, config.instruction, None)
            response, last = row.get(config.response), messages[-1]
            if last["role"] == _ASSISTANT:
                if response is not None:
                    raise MalformedError(
                        f"expected either {config.response} or a last message of the assistant, not both"
                    )
                messages, response = messages[:-1], last["content"]
            if not messages or not isinstance(response, str) or not response.strip() or not is_unicode(response):
                raise MalformedError(
                    f"expected a prompt and its response: text in the field {config.response} (policy.supervised."
                    f"response names it) or a last message of the assistant, found {show(dict(row))}"
                )
            prompt = encode(messages).tokens
        except (MalformedError, TemplateError) as error:
            raise SourceError(f"{config.source}, row {number}: {error}") from None
        answer = tokenizer(response, add_special_tokens=False)["input_ids"]
        rows.append(Row(prompt, [*answer, end]))
    kept = [row for row in rows if row.length <= config.max_tokens]
    if not kept:
        raise SourceError(f"{config.source}: none of {len(rows)} rows has at most {config.max_tokens} tokens")
    return Start(model, tokenizer, kept, len(rows) - len(kept))


def train_supervised(
    start: Start,
    settings: SupervisedTraining,
    states: Path,
    key: str,
    progress: Callable[[int], None],
    seconds_between_states: float = _SECONDS_BETWEEN_STATES,
) -> pl.DataFrame:
    """Train the model of a start in place; weights, gradients and AdamW's moments are float32.

    Loss: mean negative log-likelihood of the batch's response tokens (end token included). The batch of a step is a
    function of (seed, step). Same start and settings on the same machine: same bytes, also after an interruption.
    The process keeps the number of threads, and flushes denormal numbers from now on.

    Args:
        states: folder for the state of this training.
        key: of all that the result depends on; a state with another key is not used.
        progress: called with the number of steps so far, first with the number restored from a state, then after each.

    Returns:
        The table `supervised`: a row for each step.

    Raises:
        ValueError: a gradient is not finite.
    """
    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)
    model, rows = start.model.to(device_of_job()), start.rows
    policy, precision = LogProbs(model), getattr(torch, settings.dtype)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay, foreach=True
    )
    curve = _restore(states, key, model, optimizer)
    saved = time.monotonic()
    progress(len(curve))
    model.eval()  # no dropout, as in RL
    for step in range(len(curve), settings.steps):
        rate = settings.lr * _learning_rate_factor(step, settings)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = [rows[index] for index in batch_indices(len(rows), settings.batch, settings.seed, step)]
        tokens, loss = sum(len(row.response) for row in batch), 0.0
        for part in policy.plan(batch, settings.token_budget, "off"):
            micro_batch = collate([batch[index] for index in part.rows], policy.device, part.shared, part.form)
            with torch.autocast(torch.device(policy.device).type, precision, enabled=precision != torch.float32):
                part_loss = -policy(micro_batch)[0].sum() / tokens
            torch.autograd.backward(part_loss)
            loss += part_loss.item()
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), settings.clip))
        if not math.isfinite(norm):
            raise ValueError(
                f"update {step + 1} has a gradient that is not finite; set a lower lr (policy.supervised.lr)"
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append((step + 1, rate, loss, norm, tokens))
        progress(step + 1)
        if step + 1 < settings.steps and time.monotonic() - saved >= seconds_between_states:
            _save(states, key, model, optimizer, curve)
            saved = time.monotonic()
    return SCHEMAS["supervised"].frame(curve)


def batch_indices(rows: int, batch: int, seed: int, step: int) -> list[int]:
    """Rows of a step, which counts from 0: the next slice of permutations, one for each pass over the rows.

    The order is the one that the shipped base of the world was trained in.
    """

    def order(epoch: int) -> list[int]:
        indices = list(range(rows))
        random.Random(f"{seed}/order/{epoch}").shuffle(indices)
        return indices

    return step_of_epochs(order, step + 1, batch, rows)


def _learning_rate_factor(step: int, settings: SupervisedTraining) -> float:
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    return 0.5 * (1 + math.cos(math.pi * (step - settings.warmup) / max(1, settings.steps - settings.warmup)))


def _save(
    states: Path, key: str, model: nn.Module, optimizer: torch.optim.Optimizer, curve: Sequence[tuple[float, ...]]
) -> None:
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        # AdamW keeps no state of a parameter that never had a gradient.
        parts = {"weight": parameter.detach(), **optimizer.state.get(parameter, {})}
        tensors |= {f"{part}/{name}": tensor.contiguous() for part, tensor in parts.items()}
    states.mkdir(parents=True, exist_ok=True)
    with replacing(states / _STATE) as temporary:
        save_file(tensors, temporary, {"key": key, "curve": json.dumps(curve)})


@torch.no_grad()
def _restore(states: Path, key: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[float, ...]]:
    """Set model and optimizer to the state on disk; returns the steps so far, none without a state of this key."""
    try:
        with safe_open(states / _STATE, framework="pt") as file:
            facts = file.metadata() or {}
            if facts.get("key") != key:
                return []
            curve = [tuple(row) for row in json.loads(facts["curve"])]
            saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError):  # none, or a damaged one: the training starts anew
        return []
    for name, parameter in model.named_parameters():
        parameter.copy_(saved[f"weight/{name}"])
        parts = {part: saved[f"{part}/{name}"] for part in _OF_ADAM if f"{part}/{name}" in saved}
        if parts:
            # The count of steps stays on the CPU.
            optimizer.state[parameter] = {p: t if p == "step" else t.to(parameter.device) for p, t in parts.items()}
    return curve
