"""The block `prompts`: from questions to prompt tokens."""

from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block, Count


class PromptsConfig(Block):
    """Configuration of the block `prompts`."""

    template: Literal["plain", "chat"] = Field(
        "chat",
        description="chat: the chat template of the policy's tokenizer, with its generation prompt; plain: the "
        "concatenated contents of the messages, for a model without a template.",
    )
    max_tokens: Count = Field(16000, description="Maximum tokens of a prompt; longer ones are rejected as overlong.")
