"""Tiny models with random weights, and one tokenizer whose tokens are single characters."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

PAD, EOS = 0, 1
# The letters a to h are the tokens 2 to 9.
TOKENS = ("<pad>", "<eos>", *string.ascii_lowercase, *string.digits, *" :?\n_AQ")
# More than the tokenizer has, and a multiple of vLLM's padding.
VOCABULARY = 64
KINDS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
}

# As of real models; two queries share a key.
HEADS_OF_128 = {"hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 1}


def tiny_model(vocabulary: int = VOCABULARY, *, kind: str = "llama", seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model of two layers, with weights so large that a wrong position or a look at the padding shows.

    Args:
        kind: of `KINDS`.
        changes: settings of its configuration that differ from the usual ones here.
    """
    settings: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 128,
        "max_position_embeddings": 256,
        "initializer_range": 0.1,
        "tie_word_embeddings": False,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
    }
    config, model = KINDS[kind]
    torch.manual_seed(seed)
    made = model(config(vocab_size=vocabulary, **(settings | changes)))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.5)  # Zero at the start: a forgotten bias would not show.
    return made


def write_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Write the tokenizer to a folder and return it."""
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="_"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="_",
        clean_up_tokenization_spaces=False,
    )
    wrapped.save_pretrained(folder)
    return wrapped


def write_tiny_policy(folder: Path, **changes: Any) -> PreTrainedModel:
    """Write a tiny model (`changes` as in `tiny_model`) and the tokenizer to a folder; returns the model."""
    model = tiny_model(**changes)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return model
