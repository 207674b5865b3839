"""Messages as prompt tokens, with the tokenizer of the policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal


def encoder(policy: Path, template: Literal["plain", "chat"]) -> Callable[[list[dict[str, str]]], list[int]]:
    """The function from messages to prompt token ids.

    Args:
        policy: folder of a Hugging Face model with its tokenizer.
        template: `chat` applies the tokenizer's chat template with its generation prompt; `plain` puts the contents
            one after the other.

    Raises:
        ValueError: `chat` with a tokenizer that has no chat template.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(policy, local_files_only=True, trust_remote_code=False)
    if template == "plain":
        return lambda messages: list(tokenizer("".join(message["content"] for message in messages))["input_ids"])
    if tokenizer.chat_template is None:
        raise ValueError(f"{policy}: its tokenizer has no chat template; set prompts.template to plain or add one")
    return lambda messages: list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    )
