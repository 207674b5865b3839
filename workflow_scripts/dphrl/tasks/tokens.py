"""Prompts and responses as tokens, by the tokenizer of the policy."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a Hugging Face folder; nothing is downloaded and no code in the folder runs."""
    # Imported here: datasets whose samples were recorded are prepared without transformers.
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return tokenizer


def encoder(policy: Path, template: Literal["plain", "chat"]) -> Callable[[list[dict[str, str]]], list[int]]:
    """The function from messages to prompt token ids, by the tokenizer in the folder of a policy.

    `chat` applies the tokenizer's chat template with its generation prompt; `plain` concatenates the contents.
    """
    tokenizer = load_tokenizer(policy)
    if template == "plain":
        return lambda messages: list(tokenizer("".join(message["content"] for message in messages))["input_ids"])
    if tokenizer.chat_template is None:
        raise ValueError(f"{policy}: its tokenizer has no chat template; set prompts.template to plain or add one")
    return lambda messages: list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    )


def response_encoder(policy: Path) -> Callable[[str], list[int]]:
    """The function from a recorded response to its token ids with the end token."""
    tokenizer = load_tokenizer(policy)
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return lambda text: [*tokenizer(text, add_special_tokens=False)["input_ids"], *end]
