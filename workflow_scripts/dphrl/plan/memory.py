"""The sizes of a model, the memory of each phase of a segment on a GPU, and the keys that save memory.

The memory is a sum of named parts in bytes.

Constants without a formula are sizes of CUDA graphs, contexts and allocators in vLLM 0.32 and torch 2.13.
`make gpu-check` prints the memory that a card really used next to these figures.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from dphrl.config.blocks.policy import SupervisedTraining
from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.config.config import Config

GB = 1e9
BYTES = {"float32": 4, "bfloat16": 2}
_CONTEXT = 1.5 * GB  # CUDA context and NCCL buffers
# CUDA graphs, profiling workspace and sampler buffers of the smallest engine, and bytes for each parameter: 4 to 5 GB
# at 7 to 8 billion parameters.
_ENGINE, _ENGINE_PER_PARAMETER = 3.3 * GB, 0.15
_ASLEEP = 1.5 * GB  # CUDA graphs and workspace that an engine keeps while it sleeps: 1 to 2 GB
_WORKSPACE = 1.5 * GB  # workspaces of the trainer's kernels, fragments of the allocator
_BUCKET = 4 * 2.5e8  # DeepSpeed's buffer for sums over ranks, in float32
_GATHERED = 1e9  # elements of whole layers that ZeRO-3 keeps at a time
# Float32 values of the head that exist at one time on a GPU (the chunks of policy/logprobs.py), and copies of them.
_HEAD_CHUNK, _HEAD_COPIES = 5 * 2**24, 5
# Parts that only a GPU needs.
_OF_CUDA = ("context", "engine's buffers", "workspace", "buckets", "sleeping engine")
# Keys of `hardware` that save memory, from the cheapest; each is set in addition to those before it.
LESS_MEMORY: Final[tuple[dict[str, Any], ...]] = (
    {"gradient_checkpointing": True},
    {"zero_stage": 3, "ranks": 2},
    *({"ranks": ranks} for ranks in (4, 8)),
    {"kv_cache_gib": 12},
    {"offload_optimizer": True},
    *({"tensor_parallel": gpus} for gpus in (2, 4, 8)),
    {"kv_cache_gib": 6},
    *({"ranks": ranks} for ranks in (16, 32, 64)),
)


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
        """The shape that a Hugging Face config.json describes: a dense decoder with a gated feed-forward layer.

        Biases and norms of queries and keys are not counted.

        Raises `ValueError` for a mixture of experts, and for a config.json without one of the sizes.
        """
        names = ("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "num_attention_heads")
        dense = not any("experts" in name for name in config)
        if not dense or not all(isinstance(config.get(name), int) for name in names):
            raise ValueError(f"config.json: expected a dense decoder, with {', '.join(names)}")
        layers, hidden, vocabulary, feed_forward, heads = (config[name] for name in names)
        size = config.get("head_dim") or hidden // heads
        queries, keys = heads * size, (config.get("num_key_value_heads") or heads) * size
        layer = hidden * (2 * queries + 2 * keys + 3 * feed_forward + 2)
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
class Phase:
    """The contents of one GPU at one time; parts are bytes by name."""

    name: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


@dataclass(frozen=True)
class Setting:
    """The keys that decide the memory of a method's jobs on a GPU.

    Attributes:
        hardware: the block of the configuration.
        dtype: precision of the forward and backward pass.
        reference: whether the base model scores rollouts.
        gradient_share: whether the gradients of policy loss and divergence are compared.
        adapters: number of LoRA's parameters; None: all weights are trained.
    """

    hardware: HardwareConfig
    dtype: str = "bfloat16"
    reference: bool = False
    gradient_share: bool = False
    adapters: int | None = None

    @classmethod
    def of(cls, config: Config, method: str | None, shape: ModelShape) -> Self:
        """The setting of a method; for None, of the jobs before and after training, which depend on no method."""
        chosen = config.methods[method] if method else MethodConfig()
        return cls(
            config.hardware,
            config.train.dtype,
            reference=chosen.needs_reference_model,
            gradient_share=config.train.probe.gradient and config.train.probe.prompts > 0,
            adapters=shape.adapters(chosen.lora.rank, chosen.lora.targets) if chosen.lora else None,
        )


def phases(shape: ModelShape, setting: Setting) -> list[Phase]:
    """The phases of a training: the engine sleeps while the trainer is built and while it works.

    With ZeRO-3 the reference model is divided like the policy; else it is on the GPU only while it is used.
    """
    width, hardware = BYTES[setting.dtype], setting.hardware
    stage, offload = hardware.zero_stage, hardware.offload_optimizer
    share = 1 / hardware.ranks if stage else 1  # of the optimizer's state, on each rank
    trained = setting.adapters or shape.parameters
    weights = _weights(shape, setting)
    states = {
        "gradients": 4 * trained * (share if stage >= 2 else 1),
        "master weights": (4 if width == 2 else 0) * trained * share,
        "AdamW's moments": 8 * trained * share,
    }
    resident = {"weights": weights, **({} if offload else states), "buckets": _BUCKET}
    reference = {"reference model": weights}
    if setting.reference and stage == 3:
        resident |= reference
    engine = {
        "engine's weights": shape.parameters * width / hardware.tensor_parallel,
        "key-value cache": hardware.kv_cache_gib * 2**30,
        "engine's buffers": _engine_buffers(shape, setting),
    }
    context, asleep = {"context": _CONTEXT}, {"sleeping engine": _ASLEEP}
    alone = {**context, **resident, **asleep, "workspace": _WORKSPACE}
    update: dict[str, float] = {}
    if not offload:
        # AdamW needs the root of this rank's second moments, and a copy of its gradients. At stage 1 that is inferred:
        # 47.7 GB were measured for 1.5 billion parameters on an H100, 42.5 are planned without it (docs/gpu.md).
        update = {"update": 8 * trained * share}
    # At stage 1 in bfloat16 DeepSpeed keeps the gradients of the last pass next to their sums in float32.
    twice = stage == 1 and width == 2 and not offload
    of_pass = {"gradients of a pass": 2.0 * trained} if twice else {}
    computed = {**_gathered(shape, setting), **activations(shape, setting)}
    of_training = [
        Phase("start", {**context, **resident, **asleep, "largest weight": shape.largest * width}),
        Phase("generating", {**context, **resident, **engine}),
        Phase("training", {**alone, **of_pass, **computed}),
        Phase("optimizer step", {**alone, **of_pass, **update}),
    ]
    if setting.gradient_share and stage < 3:
        of_training.append(Phase("gradient share", {**alone, **computed, "two gradients": 2 * trained * width}))
    if setting.reference and stage < 3:
        of_training.append(Phase("reference log-probs", {**alone, **reference, **_without_backward(shape, setting)}))
    return of_training


def sampling_phase(shape: ModelShape, setting: Setting) -> Phase:
    """A sampling job with its least cache, on each of the GPUs that share its engine."""
    width = BYTES[setting.dtype]
    parts = {"context": _CONTEXT, "engine's weights": shape.parameters * width / setting.hardware.tensor_parallel}
    parts |= {"key-value cache": setting.hardware.for_sampling().kv_cache_gib * 2**30}
    parts |= {"engine's buffers": _engine_buffers(shape, setting)}
    return Phase("sampling", parts)


def reference_phase(shape: ModelShape, setting: Setting) -> Phase:
    """The job that computes the stored log-probs of the base policy, without a backward pass.

    With ZeRO-3 its model is divided like the policy, else it is on one GPU. A training needs more.
    """
    gathered = _gathered(shape, setting) if setting.hardware.ranks > 1 else {}
    parts = {"context": _CONTEXT, "weights": _weights(shape, setting), "workspace": _WORKSPACE, **gathered}
    return Phase("reference", {**parts, **_without_backward(shape, setting)})


def base_phase(shape: ModelShape, training: SupervisedTraining) -> Phase:
    """The supervised training that makes the base policy: all of it in float32, on one GPU."""
    batch = Setting(HardwareConfig(token_budget=training.token_budget), training.dtype)
    return Phase("training", {"weights, gradients and moments": 16.0 * shape.parameters, **activations(shape, batch)})


def without_gpu(together: Iterable[Phase]) -> float:
    """Bytes of host memory for the parts of these phases on a machine without GPUs, where no phase frees its parts."""
    parts: dict[str, float] = {}
    for phase in together:
        parts |= {name: max(size, parts.get(name, 0.0)) for name, size in phase.parts.items()}
    return sum(size for name, size in parts.items() if name not in _OF_CUDA)


def _weights(shape: ModelShape, setting: Setting) -> float:
    return shape.parameters * BYTES[setting.dtype] / setting.hardware.reference_ranks


def _engine_buffers(shape: ModelShape, setting: Setting) -> float:
    return _ENGINE + _ENGINE_PER_PARAMETER * shape.parameters / setting.hardware.tensor_parallel


def _gathered(shape: ModelShape, setting: Setting) -> dict[str, float]:
    size = min(_GATHERED, shape.parameters) * BYTES[setting.dtype]
    return {"gathered layers": size} if setting.hardware.zero_stage == 3 else {}


def _without_backward(shape: ModelShape, setting: Setting) -> dict[str, float]:
    # No layer is kept.
    return activations(replace(shape, layers=1), setting)


def activations(shape: ModelShape, setting: Setting) -> dict[str, float]:
    """Bytes that the backward pass keeps of a micro-batch of `token_budget` tokens.

    A layer keeps four values of the feed-forward size for each token, and about 13 of the hidden size (norms in
    float32, queries, attention output, residuals): 223 kB in bfloat16, measured with fake tensors on Llama-3.1-8B.
    """
    width, tokens = BYTES[setting.dtype], setting.hardware.token_budget
    layer = tokens * width * (4 * shape.feed_forward + 12.7 * shape.hidden + 2 * shape.keys)
    kept = shape.layers * layer
    if setting.hardware.gradient_checkpointing:
        kept = shape.layers * tokens * shape.hidden * width + layer
    head = 2 * shape.vocabulary * shape.hidden * width + _HEAD_CHUNK * 4 * _HEAD_COPIES
    return {"activations": kept, "head": head}


def host_bytes(shape: ModelShape, setting: Setting) -> float:
    """Bytes of CPU memory per rank that the optimizer occupies: gradients, master weights and moments if offloaded."""
    hardware, trained = setting.hardware, setting.adapters or shape.parameters
    if not hardware.offload_optimizer:
        return 0.0
    return 16 * trained / (hardware.ranks if hardware.zero_stage else 1)


def policy_bytes(shape: ModelShape, setting: Setting) -> float:
    """Bytes of a policy on disk."""
    return float(shape.parameters * BYTES[setting.dtype])


def training_bytes(shape: ModelShape, setting: Setting, train: TrainConfig, steps: int) -> float:
    """The most bytes that the policies and states of a training of `steps` steps occupy on disk at one time."""
    policies = states = steps // train.segment_steps
    if train.keep_state == "newest":
        # A state stays for the running segment and the segment before it, a policy also where it is evaluated.
        policies, states = min(policies, len(train.evaluated(steps)) + 1), min(states, 2)
    # A state: master weights and two moments in float32.
    return policies * policy_bytes(shape, setting) + states * 12.0 * (setting.adapters or shape.parameters)
