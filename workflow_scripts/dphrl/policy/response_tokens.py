"""The tokens of a response: which ones end it, and its text."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from dphrl.data.tokens import TemplateError, end_of_turn

# Prompt tokens decoded together with a response: some tokenizers drop a space at the start of a text.
TOKENS_BEFORE = 5


def decode(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    """The text of tokens without special ones, with its spaces as they are."""
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def response_text(
    tokenizer: PreTrainedTokenizerBase, ends: frozenset[int], prompt: Sequence[int], tokens: Sequence[int]
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


def stop_tokens(folder: Path, tokenizer: PreTrainedTokenizerBase, more: Sequence[int] | None) -> frozenset[int]:
    """The tokenizer's EOS, the end tokens of generation_config (else of config.json), and others.

    Warns where the end-of-turn token of the chat template is not among them: a response would go on after its answer.
    In a base model such as Qwen2.5-Math-7B this token is not the EOS.

    Args:
        folder: of the model.
        more: further tokens; None: the end-of-turn token of the chat template, if there is a template.
    """
    files = [folder / name for name in ("generation_config.json", "config.json")]
    listed = next((json.loads(file.read_text("utf-8")).get("eos_token_id") for file in files if file.is_file()), None)
    of_config = listed if isinstance(listed, list) else [listed]
    ends = {tokenizer.eos_token_id, *of_config, *(more or ())} - {None}
    if tokenizer.chat_template is None:
        return frozenset(ends)
    problem = "has no special token after an answer"
    try:
        last = end_of_turn(tokenizer, folder)
    except TemplateError as error:
        last, problem = None, f"cannot render an answer ({error})"
    if more is None and last is not None:
        ends.add(last)
    if last not in ends:
        if last is not None:
            problem = f"ends an answer with {tokenizer.convert_ids_to_tokens(last)!r} ({last})"
        warnings.warn(
            f"{folder}: its chat template {problem}, which ends no response here; responses end with the tokens"
            f" {sorted(ends)}: set engine.stop or engine.stop_token_ids",
            stacklevel=2,
        )
    return frozenset(ends)
