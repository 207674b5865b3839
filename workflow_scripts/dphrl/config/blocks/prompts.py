"""The block `prompts`: from questions to prompt tokens."""

from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block


class PromptsConfig(Block):
    """Configuration of the block `prompts`."""

    template: Literal["plain", "chat"] = Field(
        "chat",
        description="chat: the chat template of the policy's tokenizer, with its generation prompt; plain: the "
        "concatenated contents of the messages, for a model without a template.",
    )
    max_tokens: int = Field(
        16000, ge=1, description="Maximum length of a prompt in tokens; longer ones are rejected (reason overlong)."
    )
