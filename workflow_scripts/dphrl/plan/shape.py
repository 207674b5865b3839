"""The size of a dense decoder model, from its config.json alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

# Decoders with RMS norms, rotary positions and a gated feed-forward layer. Whether q, k and v have biases by default,
# and whether queries and keys have norms.
_QKV_BIAS = {"llama": False, "mistral": False, "qwen2": True, "qwen3": False}
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

        Raises `ValueError` for an architecture whose size is not known here, and for one with missing sizes.
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

    def cache_bytes(self, bytes_per_value: int) -> int:
        """Bytes of the key-value cache for one token."""
        return 2 * self.layers * self.keys * bytes_per_value
