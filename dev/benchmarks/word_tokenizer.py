"""A tokenizer whose tokens can be read: the text `t7` is token 7."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def write_word_tokenizer(folder: Path, vocabulary: int) -> None:
    """Write a tokenizer for a model of so many tokens; its end token is outside them, so nothing ends a response."""
    words = {f"t{i}": i for i in range(vocabulary)} | {"<end>": vocabulary}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="t0", unk_token="t0", padding_side="left"
    )
    wrapped.save_pretrained(folder)
