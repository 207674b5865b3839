"""The block `policy`: the base model, and a supervised training of it before anything is sampled."""

from pydantic import Field

from dphrl.config.blocks.base import Beta, Block, Count, Dtype, Positive, Text, Whole


class SupervisedOptimizer(Block):
    """Configuration of a supervised training: AdamW with a linear warm-up and cosine decay to zero."""

    steps: Count = Field(400, description="Number of updates.")
    batch: Count = Field(64, description="Rows per update.")
    lr: Positive = Field(2.0e-3, description="Maximum learning rate, at the end of the warm-up.")
    warmup: Whole = Field(50, description="Number of warm-up updates.")
    betas: tuple[Beta, Beta] = Field((0.9, 0.98), description="AdamW's decay rates of the two moments.")
    weight_decay: float = Field(0.05, ge=0, description="AdamW's decoupled weight decay, for all parameters.")
    clip: Positive = Field(1.0, description="Maximum norm of the gradient.")


class SupervisedTraining(SupervisedOptimizer):
    """A supervised training with all that its weights depend on."""

    seed: Whole = Field(1, description="Seed of the order of rows.")
    dtype: Dtype = Field(
        "bfloat16", description="Precision of products: bfloat16 or float32. Weights and optimizer are float32."
    )
    token_budget: Count = Field(
        2048, description="Most tokens of a forward and backward pass, padding included; more take more memory."
    )
    threads: Count = Field(2, description="PyTorch threads on a CPU; the weights depend on it.")


class SupervisedConfig(SupervisedTraining):
    """Configuration of `policy.supervised`: the base model learns rows with answers before it is sampled from."""

    source: Text = Field(
        description="JSONL, JSON or parquet file of rows with a prompt (`prompt`, `messages` or `question`) and its "
        "response; or hf://datasets/ORG/NAME[@REVISION]/FILE, a file of the hub.",
        examples=["data/supervised.jsonl"],
    )
    response: Text = Field(
        "response",
        description="Field of a row with the response. Without it the response is the last message, of the assistant.",
    )
    fields: dict[str, str | list[str]] = Field(
        {}, description="Names of prompt, messages or question in the file, where they differ."
    )
    instruction: Text | None = Field(None, description="System message before the messages of each row; null: none.")
    max_tokens: Count = Field(1024, description="Most tokens of prompt and response; longer rows are left out.")
    steps: Count = Field(100, description="Number of updates.")
    batch: Count = Field(16, description="Rows per update.")
    lr: Positive = Field(3.0e-4, description="Maximum learning rate, at the end of the warm-up.")
    warmup: Whole = Field(10, description="Number of warm-up updates.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled weight decay, for all parameters.")


class PolicyConfig(Block):
    """Configuration of the block `policy`."""

    base: Text | None = Field(
        None,
        description="The base model: a name of the hub, ORG/NAME[@REVISION] or hf://ORG/NAME[@REVISION]; a folder "
        "in the Hugging Face layout with its tokenizer (config.json, *.safetensors, tokenizer.json); null: the model "
        "of the block `toy`, or none if all responses are recorded.",
        examples=["models/Llama-3.1-8B-Instruct"],
    )
    supervised: SupervisedConfig | None = Field(
        None,
        description="A supervised start: the model of `base` learns rows with answers, and the result is the base "
        "policy and the reference. It needs 16 bytes of memory for each weight. null: none.",
    )
