"""The text of a response, which both engines decode when it is complete."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Prompt tokens decoded together with a response: some tokenizers drop a space at the start of a text.
TOKENS_BEFORE = 5


def decode(tokenizer: "PreTrainedTokenizerBase", tokens: Sequence[int]) -> str:
    """The text of tokens without special ones, with its spaces as they are."""
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def response_text(
    tokenizer: "PreTrainedTokenizerBase", ends: frozenset[int], prompt: Sequence[int], tokens: Sequence[int]
) -> str:
    """The text of a response without its end token; an incomplete last character is left out.

    This is the text that vLLM's own decoding token by token gives.

    Args:
        ends: tokens that end a response.
        prompt: token ids of its prompt.
        tokens: token ids of the response, at least one.
    """
    before = prompt[-TOKENS_BEFORE:]
    visible = tokens[:-1] if tokens[-1] in ends else tokens
    return decode(tokenizer, [*before, *visible]).removeprefix(decode(tokenizer, before)).rstrip("\ufffd")
