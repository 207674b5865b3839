"""The base model: a small Llama trained from scratch on the supervised corpus."""

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from dphrl.config.blocks.toy import ToyConfig, ToyOptimizer

LONGEST_SEQUENCE = 256
# Rows of a batch are sorted by length and split into micro-batches of this size, so that padding is short. Batches of
# one length would change the mixture of rows in an update.
MICRO_BATCH = 16


@dataclass(frozen=True)
class Example:
    """A row of the corpus as token ids. The response ends with the end-of-sequence token."""

    prompt: list[int]
    response: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


def train_base(
    world: Path, out: Path, config: ToyConfig, progress: Callable[[int, int], None], threads: int = 1
) -> None:
    """Train the base model of a world written by `build_world` and save it as a Hugging Face folder.

    Loss: mean negative log-likelihood of the batch's response tokens (end of sequence included), float32.
    The batch of a step is a function of (seed, step). Same world, config and threads on the same machine: same bytes.
    `progress(done, steps)` is called after every step. Sets PyTorch's number of threads for the process and makes it
    flush denormal numbers. Raises `ValueError` for a corpus row that is too long or that the tokenizer cannot write.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    tokenizer = AutoTokenizer.from_pretrained(world / "tokenizer")
    examples = read_examples(world / "corpus.jsonl", tokenizer)
    model = _new_model(config, tokenizer)
    settings = config.optimizer
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay, foreach=True
    )
    model.train()
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * _learning_rate_factor(step, settings)
        batch = [examples[index] for index in batch_indices(len(examples), settings.batch, config.seed, step)]
        _accumulate_gradient(model, batch)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        progress(step + 1, settings.steps)
    model.eval()
    disable_progress_bar()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def read_examples(corpus: Path, tokenizer: PreTrainedTokenizerBase) -> list[Example]:
    """The corpus as token ids; prompt and response are encoded separately, as in sampling.

    Raises `ValueError` naming the file and line for a row that is too long or that holds an unknown character.
    """
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    prompts = tokenizer([row["prompt"] for row in rows])["input_ids"]
    responses = tokenizer([row["response"] for row in rows])["input_ids"]
    examples = []
    for line, (prompt, response) in enumerate(zip(prompts, responses, strict=True), start=1):
        example = Example(prompt, [*response, tokenizer.eos_token_id])
        if len(example) > LONGEST_SEQUENCE:
            raise ValueError(f"{corpus}, line {line}: {len(example)} tokens, at most {LONGEST_SEQUENCE} expected")
        if tokenizer.unk_token_id in prompt or tokenizer.unk_token_id in response:
            raise ValueError(
                f"{corpus}, line {line}: a character that its tokenizer does not know; build the world again"
            )
        examples.append(example)
    return examples


def batch_indices(rows: int, batch: int, seed: int, step: int) -> list[int]:
    """Rows of a step: slice number `step` of an endless sequence of permutations, one for each pass over the corpus."""
    indices = []
    permutations: dict[int, list[int]] = {}
    for position in range(step * batch, (step + 1) * batch):
        epoch, index = divmod(position, rows)
        if epoch not in permutations:
            permutations[epoch] = list(range(rows))
            random.Random(f"{seed}/order/{epoch}").shuffle(permutations[epoch])
        indices.append(permutations[epoch][index])
    return indices


def _new_model(config: ToyConfig, tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.model.width,
        intermediate_size=config.model.feed_forward,
        num_hidden_layers=config.model.layers,
        num_attention_heads=config.model.heads,
        num_key_value_heads=config.model.heads,
        max_position_embeddings=LONGEST_SEQUENCE,
        # vLLM's CPU build keeps the old output head, silently, when new weights are pushed into a tied one.
        tie_word_embeddings=False,
        # PyTorch's scale for this width; with Hugging Face's 0.02 the loss after 160 steps was .41 instead of .30.
        initializer_range=(3 * config.model.width) ** -0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        use_cache=True,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = LlamaForCausalLM(shape)
    model.generation_config = GenerationConfig(
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    return model


def _learning_rate_factor(step: int, settings: ToyOptimizer) -> float:
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    return 0.5 * (1 + math.cos(math.pi * (step - settings.warmup) / max(1, settings.steps - settings.warmup)))


def _accumulate_gradient(model: LlamaForCausalLM, batch: Sequence[Example]) -> None:
    tokens = sum(len(example.response) for example in batch)
    for ids, predicting, targets in _micro_batches(batch, model.config.pad_token_id):
        # Padding is on the right, where causal attention does not look, so no mask is needed. The output head, the
        # widest layer, is applied to the positions of the loss only.
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[predicting])
        torch.autograd.backward(functional.cross_entropy(logits, targets, reduction="sum") / tokens)


def _micro_batches(batch: Sequence[Example], pad: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Token ids (rows, length) int64, positions that predict a response token (rows, length) bool, targets int64."""
    ordered = sorted(batch, key=len)
    for start in range(0, len(ordered), MICRO_BATCH):
        micro = ordered[start : start + MICRO_BATCH]
        # The last token predicts nothing.
        length = len(micro[-1]) - 1
        ids = torch.full((len(micro), length), pad)
        predicting = torch.zeros((len(micro), length), dtype=torch.bool)
        for row, example in enumerate(micro):
            ids[row, : len(example) - 1] = torch.tensor([*example.prompt, *example.response[:-1]])
            predicting[row, len(example.prompt) - 1 : len(example) - 1] = True
        yield ids, predicting, torch.tensor([token for example in micro for token in example.response])
