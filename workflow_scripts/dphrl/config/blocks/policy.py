"""The block `policy`: the base model, which is also the frozen reference."""

from pydantic import Field

from dphrl.config.blocks.base import Block, Text


class PolicyConfig(Block):
    """Configuration of the block `policy`."""

    base: Text | None = Field(
        None,
        description="Folder of the base model and its tokenizer in the Hugging Face layout (config.json, "
        "*.safetensors, tokenizer.json); null: the model of the block `toy`, or none if all responses are recorded.",
        examples=["models/Llama-3.1-8B-Instruct"],
    )
