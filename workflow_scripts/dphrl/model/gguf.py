"""A GGUF file of the Llama architecture as a folder of Hugging Face: config, tokenizer, and weights as safetensors.

GGUF files usually hold quantised weights: the folder gets their values, not the weights before quantisation.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, GgufConfig, LlamaForCausalLM

from dphrl.artifacts.files import replacing_folder
from dphrl.hub import ARCHITECTURE, read_gguf
from dphrl.model.logprobs import filled

try:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS as _SPLITS
except ImportError:  # Older versions split every text as GPT-2 does.
    _SPLITS = {}
# transformers leaves out any other tensor without a word: biases, experts, scaled positions (Llama 3.1's rope_freqs).
_TENSORS: Final = re.compile(
    r"(token_embd|output_norm|output"
    r"|blk\.\d+\.(attn_norm|attn_q|attn_k|attn_v|attn_output|ffn_norm|ffn_gate|ffn_up|ffn_down))\.weight"
)
_SCALING, _KIND, _SPLIT = "llama.rope.scaling.type", "tokenizer.ggml.model", "tokenizer.ggml.pre"
_DIGITS, _GPT2 = "smollm", "gpt-2"


def convert_gguf(file: Path, folder: Path, dtype: str) -> None:
    """Write the model of a GGUF file to a folder that transformers and vLLM load; equal files give equal bytes.

    Quantised weights are expanded. The output head is the embeddings where the file lacks a separate head. The
    tokenizer and its chat template are the file's.

    Args:
        folder: its files are replaced.
        dtype: of the written weights, "float32" or "bfloat16".

    Raises:
        ValueError: the file is damaged, of another architecture or with tensors of another, scales its positions, lacks
            a tokenizer, splits text in an unknown way, or the package gguf is not installed; the text names the file.
    """
    split = check_gguf(file)
    # transformers would also read a config.json or a tokenizer.json next to the file.
    with TemporaryDirectory() as alone:
        (Path(alone) / "model.gguf").symlink_to(file.resolve())
        # Without `dequantize` the mark of a quantised model stays, and `save_pretrained` refuses it.
        options: dict[str, Any] = {"dtype": getattr(torch, dtype), "quantization_config": GgufConfig(dequantize=True)}
        model = filled(LlamaForCausalLM, file, Path(alone), gguf_file="model.gguf", **options)
        tokenizer = AutoTokenizer.from_pretrained(alone, gguf_file="model.gguf", trust_remote_code=False)
    if split == _DIGITS:
        # transformers does not know that these merges were learned on single digits.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    with replacing_folder(folder) as written:
        model.save_pretrained(written)
        tokenizer.save_pretrained(written)


def check_gguf(file: Path) -> str | None:
    """Check that all of a GGUF file's model can be converted; reads its description, not its weights.

    Returns:
        How the tokenizer splits text before its merges, as the file names it, e.g. "smollm".

    Raises:
        ValueError: as `convert_gguf`.
    """
    content = read_gguf(file, (ARCHITECTURE, _SCALING, _KIND, _SPLIT))
    values, architecture = content.values, content.values.get(ARCHITECTURE)
    if architecture != "llama":
        raise ValueError(
            f"{file}: architecture {architecture!r}, and only llama can be converted; give policy.base a folder of"
            " safetensors of this model"
        )
    if others := sorted(name for name in content.rows if not _TENSORS.fullmatch(name)):
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if others[3:] else "")
        raise ValueError(
            f"{file}: tensors that a conversion would lose: {shown}; give policy.base a folder of safetensors of this"
            " model"
        )
    if (scaling := values.get(_SCALING, "none")) != "none":
        raise ValueError(
            f"{file}: positions are scaled ({scaling}), which a conversion would lose; give policy.base a folder of"
            " safetensors of this model"
        )
    if "tokenizer.ggml.tokens" not in content.fields:
        raise ValueError(f"{file}: no tokenizer in it; give policy.base a folder of safetensors with a tokenizer")
    split = values.get(_SPLIT)
    # transformers would split the text as GPT-2 does, so prompts would have other tokens than the model has learned.
    if values.get(_KIND) == "gpt2" and split not in {_DIGITS, _GPT2, *_SPLITS}:
        raise ValueError(
            f"{file}: its tokenizer splits text by {split!r}, which this transformers does not know; give"
            " policy.base a folder of safetensors of this model"
        )
    return split
