"""Facts that a plan starts from: the sizes of a model by its config.json, and the speeds of GPUs and CPU cores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

# Decoders with RMS norms, rotary positions and a gated feed-forward layer: whether q, k and v have biases by default.
_QKV_BIAS = {"llama": False, "mistral": False, "qwen2": True, "qwen3": False}
# Decoders with norms of queries and keys.
_QK_NORMS = {"qwen3"}


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model's weights, in elements.

    Attributes:
        layers, hidden, vocabulary, feed_forward: as in config.json.
        queries, keys: widths of the query and of the key projection (heads x head size).
        parameters: of the whole model; tied embeddings count once.
        largest: of the largest weight.
    """

    layers: int
    hidden: int
    vocabulary: int
    feed_forward: int
    queries: int
    keys: int
    parameters: int
    largest: int

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The shape that a Hugging Face config.json describes.

        Raises `ValueError` for an architecture outside `_QKV_BIAS`, and for a config.json without one of the sizes.
        """
        kind = config.get("model_type")
        if kind not in _QKV_BIAS:
            raise ValueError(f"model_type {kind!r}: sizes are known for {', '.join(_QKV_BIAS)}")
        names = ("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "num_attention_heads")
        if missing := [name for name in names if not isinstance(config.get(name), int)]:
            raise ValueError(f"config.json lacks {', '.join(missing)}")
        layers, hidden, vocabulary, feed_forward, heads = (config[name] for name in names)
        size = config.get("head_dim") or hidden // heads
        queries, keys = heads * size, (config.get("num_key_value_heads") or heads) * size
        bias = config.get("attention_bias", False)
        projections = hidden * (2 * queries + 2 * keys)
        biases = (queries + 2 * keys) * (_QKV_BIAS[kind] or bias) + hidden * bool(bias)
        feed_forward_biases = (2 * feed_forward + hidden) * bool(config.get("mlp_bias"))
        norms = 2 * hidden + (2 * size if kind in _QK_NORMS else 0)
        layer = projections + biases + 3 * hidden * feed_forward + feed_forward_biases + norms
        embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings", False) else 2)
        return cls(
            layers,
            hidden,
            vocabulary,
            feed_forward,
            queries,
            keys,
            parameters=embeddings + layers * layer + hidden,
            largest=hidden * max(vocabulary, feed_forward, queries),
        )

    def adapters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Parameters of low-rank adapters on these layers (arXiv 2106.09685): rank x (width in + width out) each."""
        h, f, q, k = self.hidden, self.feed_forward, self.queries, self.keys
        widths = {"q_proj": h + q, "k_proj": h + k, "v_proj": h + k, "o_proj": q + h}
        widths |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), h + f)
        return self.layers * rank * sum(widths.get(name, 0) for name in targets)


@dataclass(frozen=True)
class Machine:
    """A GPU, or a CPU core. Tokens per second fall with the number of a model's parameters.

    Attributes:
        generation: parameters x tokens/s of each engine, with the tail of the longest responses.
        training: floating-point operations per second of the forward and backward passes.
        start: seconds until an engine draws its first token.
        job: seconds of a job without a model, with the start of its process.
    """

    generation: dict[str, float]
    training: float
    start: dict[str, float]
    job: float


_GPU_START: Final = {"vllm": 90.0, "transformers": 30.0}
# Speeds of the CPU are measured (docs/benchmarks.md), speeds of GPUs are estimates.
MACHINES: Final = {
    "cpu": Machine({"vllm": 4.7e9, "transformers": 7.5e9}, 3e10, {"vllm": 10, "transformers": 4}, 2.5),
    "a800": Machine({"vllm": 1.0e13, "transformers": 1e12}, 3.5e13, _GPU_START, 5),
    "h100": Machine({"vllm": 1.8e13, "transformers": 2e12}, 1.1e14, _GPU_START, 5),
}
