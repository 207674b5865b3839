"""The base model: a small Llama trained from scratch on the supervised corpus."""

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from dphrl.config.blocks.toy import ToyConfig
from dphrl.policy.batch import Row
from dphrl.training.supervised import Start

LONGEST_SEQUENCE = 256


def toy_start(world: Path, config: ToyConfig) -> Start:
    """A new model for a world written by `build_world`, and the rows of the world's corpus.

    Raises `ValueError` naming the file and line for a corpus row that is too long.
    """
    tokenizer, corpus = AutoTokenizer.from_pretrained(world / "tokenizer"), world / "corpus.jsonl"
    lines = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    # Prompt and response are encoded separately, as in sampling.
    prompts = tokenizer([row["prompt"] for row in lines])["input_ids"]
    responses = tokenizer([row["response"] for row in lines])["input_ids"]
    rows = []
    for line, (prompt, response) in enumerate(zip(prompts, responses, strict=True), start=1):
        row = Row(prompt, [*response, tokenizer.eos_token_id])
        if row.length > LONGEST_SEQUENCE:
            raise ValueError(f"{corpus}, line {line}: {row.length} tokens, at most {LONGEST_SEQUENCE} expected")
        rows.append(row)
    return Start(_new_model(config, tokenizer), tokenizer, rows)


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
