"""SmolLM2's GGUF file as a folder of Hugging Face: config, tokenizer, and weights in float32.

Only `dphrl demo-llm` converts, and only the file whose digest it has pinned. Of another file, transformers can leave
out tensors and settings without a word, and the format's reader trusts each count.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, GgufConfig, LlamaForCausalLM

from dphrl.policy.logprobs import filled


def convert_gguf(file: Path, folder: Path) -> None:
    """Write the values of the quantised weights, and the file's own tokenizer and chat template.

    Args:
        file: alone in its folder, since transformers also reads a config.json or tokenizer.json there.
        folder: is made.
    """
    # Without `dequantize` the mark of a quantised model stays, and `save_pretrained` refuses it.
    options: dict[str, Any] = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    model = filled(LlamaForCausalLM, file, file.parent, gguf_file=file.name, **options)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    # transformers does not know that SmolLM's merges were learned on single digits.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
