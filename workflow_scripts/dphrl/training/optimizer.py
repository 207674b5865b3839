"""The DeepSpeed engine of a model (ZeRO, precision, AdamW with clipping), and the state of its optimizer on disk.

The state has master weights and moments by parameter, as safetensors, no pickle. Each rank writes its part, as entries
`<kind>/<parameter>/<first element>` of flattened float32. Any number of ranks at any ZeRO stage can read it: each reads
its part from all files.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor, nn

from dphrl.config.blocks.sampling import HardwareConfig
from dphrl.config.blocks.training import TrainConfig
from dphrl.policy.collectives import partition, rank, world_size
from dphrl.store.tensors import Entry, file_order, write_tensors
from dphrl.training.weights import pieces

_EPSILON = 1e-8
# Most gradients that ranks sum at once, in float32: half of DeepSpeed's default, so that they occupy 1 GB.
_BUCKET_ELEMENTS = 250_000_000
_FILES = "optimizer-*.safetensors"
_MASTER = "master"
_STEP = "step"


class ClippedAdamW(torch.optim.AdamW):
    """AdamW that clips the gradient, and skips an update whose gradient is not finite.

    DeepSpeed's ZeRO and bfloat16 optimizers do both. Without either it only clips, reports no norm, and would apply an
    update of NaN. DeepSpeed reads the two attributes.

    Attributes:
        overflow: whether the last update was skipped.
    """

    overflow = False
    _global_grad_norm = 0.0

    def __init__(self, *args: Any, clip_grad_norm: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clip_grad_norm = clip_grad_norm

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Clip the gradient and take a step. A gradient that is not finite takes none, and sets `overflow`."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        norm = float(nn.utils.clip_grad_norm_(parameters, self._clip_grad_norm))
        self.overflow = not math.isfinite(norm)
        self._global_grad_norm = math.inf if self.overflow else norm
        if not self.overflow:
            super().step()


def initialize(model: nn.Module, config: TrainConfig, hardware: HardwareConfig) -> Any:
    """A DeepSpeed engine that trains the parameters of a model that require a gradient.

    Args:
        model: on the CPU; with ZeRO-3 it is never whole on the GPU.
    """
    import deepspeed

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # The learning rate is set with each update.
    adam = {"lr": 0.0, "betas": list(config.betas), "eps": _EPSILON, "weight_decay": config.weight_decay}
    settings, optimizer = _settings(config, hardware, sum(parameter.numel() for parameter in trained)), None
    if hardware.zero_stage == 0 and config.dtype == "float32":
        optimizer = ClippedAdamW(trained, **adam, clip_grad_norm=config.clip_grad_norm)
        settings["gradient_clipping"] = 0.0  # DeepSpeed would clip again, by default to 1.
    else:
        # PyTorch's own AdamW: DeepSpeed's would be compiled on first use. Fused it passes once over states in host
        # memory, where it would loop over tensors; on a GPU it is fast as it is. In float32 it rounds otherwise than
        # in the registered trainings of the world.
        bfloat16_on_cpu = config.dtype == "bfloat16" and not torch.cuda.is_available()
        params = {**adam, "torch_adam": True, "fused": hardware.offload_optimizer or bfloat16_on_cpu}
        settings["optimizer"] = {"type": "AdamW", "params": params}
    if hardware.zero_stage == 3:
        partition(model, settings)
    engine, *_ = deepspeed.initialize(model=model, config=settings, model_parameters=trained, optimizer=optimizer)
    if hardware.zero_stage == 0:
        # Without ZeRO PyTorch accumulates the gradients, by default in the parameter's type.
        for parameter in trained:
            parameter.grad_dtype = torch.float32
        # In bfloat16 initialisation runs one zero-length step; clear its state so Adam's step count starts at 0.
        engine.optimizer.state.clear()
    return engine


def _settings(config: TrainConfig, hardware: HardwareConfig, elements: int) -> dict[str, Any]:
    # DeepSpeed allocates the bucket even for a small model.
    zero: dict[str, Any] = {"stage": hardware.zero_stage, "reduce_bucket_size": min(elements, _BUCKET_ELEMENTS)}
    if hardware.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        # The number of micro-batches depends on the rows' lengths: only step() ends an accumulation.
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.clip_grad_norm,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": config.dtype == "bfloat16"},
        # Over many micro-batches sums in bfloat16 would be off by percents, over ranks by 0.25 %.
        "data_types": {"grad_accum_dtype": "fp32"} if hardware.zero_stage else {},
        "communication_data_type": "fp32",
        "steps_per_print": 1 << 40,
    }


class _Part(NamedTuple):
    """The part of a parameter on this rank: `size` elements from `start`, in `master` from `offset`.

    `master` is a tensor of the inner optimizer: of one parameter, or a flat one of many.
    """

    name: str
    master: Tensor
    offset: int
    start: int
    size: int

    def of(self, tensor: Tensor) -> Tensor:
        """These elements of `master` or of one of its moments."""
        return tensor.detach().view(-1).narrow(0, self.offset, self.size)


def save_state(engine: Any, folder: Path) -> dict[str, str]:
    """Write this rank's part of a DeepSpeed engine's optimizer; returns the sha256 of its file by name."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    for part in _parts(engine, share=True):
        moments = _inner(engine).state.get(part.master, {})
        for kind, tensor in {_MASTER: part.master, **moments}.items():
            if kind == _STEP:
                tensors[_STEP] = tensor
            elif part.size:
                tensors[f"{kind}/{part.name}/{part.start}"] = part.of(tensor)
    entries = {name: Entry("F32", tuple(tensor.shape)) for name, tensor in tensors.items()}
    path = folder / _FILES.replace("*", f"{rank():03d}")
    return {path.name: write_tensors(path, entries, pieces(tensors[name] for name in file_order(entries)))}


@torch.no_grad()
def load_state(engine: Any, folder: Path) -> None:
    """Restore the optimizer from the files of `save_state`, on any number of ranks and at any ZeRO stage.

    Raises:
        ValueError: the state is of other parameters, or incomplete.
    """
    saved, inner, parts = SavedState(folder), _inner(engine), _parts(engine)
    # Under ZeRO-3 a parameter's own tensor is empty.
    saved.check({name: getattr(p, "ds_numel", p.numel()) for name, p in _trained(engine.module.model)})
    for part in parts:
        moments = inner.state[part.master]
        for kind in saved.kinds:
            if kind != _MASTER and kind not in moments:
                moments[kind] = torch.zeros_like(part.master, requires_grad=False)
            part.of(part.master if kind == _MASTER else moments[kind]).copy_(
                saved.read(kind, part.name, part.start, part.size)
            )
        if saved.step is not None:
            # AdamW keeps it on the CPU.
            moments[_STEP] = saved.step.clone()


@torch.no_grad()
def load_trained(model: nn.Module, folder: Path) -> None:
    """Set the parameters that require a gradient from the master weights in the files of `save_state`.

    Raises:
        ValueError: the state is of other parameters, or incomplete.
    """
    saved, trained = SavedState(folder), dict(_trained(model))
    saved.check({name: parameter.numel() for name, parameter in trained.items()})
    for name, parameter in trained.items():
        parameter.copy_(saved.read(_MASTER, name, 0, parameter.numel()).view_as(parameter))


class SavedState:
    """The state in a folder.

    Attributes:
        kinds: of tensors: the master weights, and moments if there was a step.
        step: number of AdamW's last step; None before the first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.step: Tensor | None = None
        self._entries: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for path in sorted(folder.glob(_FILES)):
            file = safe_open(path, framework="pt")
            for key in file.keys():  # noqa: SIM118
                if key == _STEP:
                    self.step = file.get_tensor(key)
                else:
                    kind, name, start = key.split("/")
                    self._entries[kind, name].append((int(start), file.get_slice(key)))
        self.kinds = sorted({kind for kind, _ in self._entries})

    def check(self, sizes: dict[str, int]) -> None:
        """Raise ValueError unless the state is of parameters of these names and numbers of elements, and complete."""
        names = {name for _, name in self._entries}
        if names != sizes.keys():
            raise self._error(f"is of {len(names)} parameters, and {len(sizes)} are trained now", names ^ sizes.keys())
        for kind in self.kinds:
            for name, size in sizes.items():
                end = 0
                for start, values in sorted(self._entries[kind, name], key=lambda entry: entry[0]):
                    end += values.get_shape()[0] if start == end else 0
                if end != size:
                    raise self._error(f"has {end} consecutive elements of {size} in `{kind}`", {name})

    def read(self, kind: str, name: str, start: int, size: int) -> Tensor:
        """Some elements of a parameter or of a moment of it, float32; only these are read."""
        parts = []
        for first, values in sorted(self._entries[kind, name], key=lambda entry: entry[0]):
            low, high = max(start - first, 0), min(start + size - first, values.get_shape()[0])
            if low < high:
                parts.append(values[low:high])
        return torch.cat(parts) if parts else torch.empty(0)

    def _error(self, problem: str, names: set[str]) -> ValueError:
        return ValueError(
            f"{self._folder / _FILES}: the state {problem}, first {min(names)}: files are missing, or the model or"
            " `lora` is another one; restore them, or start this training anew"
        )


def _inner(engine: Any) -> Any:
    """The AdamW inside DeepSpeed's optimizer."""
    return getattr(engine.optimizer, "optimizer", engine.optimizer)


def _trained(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Each trained parameter, to which DeepSpeed adds attributes, with its name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _parts(engine: Any, share: bool = False) -> Iterator[_Part]:
    """The part of each trained parameter on this rank; with `share`, its share where all ranks have the whole.

    DeepSpeed's public accessors (`safe_get_local_...`) do not serve here: they copy each tensor to the GPU, where an
    offloaded optimizer does not fit, and set no moment before the first step.
    """
    wrapper, inner = engine.optimizer, _inner(engine)
    masters = [master for group in inner.param_groups for master in group["params"]]
    for i, (name, parameter) in enumerate(_trained(engine.module.model)):
        if hasattr(parameter, "ds_id"):
            group, offset, size = wrapper.grad_position[wrapper.get_param_id(parameter)]
            start = size * parameter.ds_zero_partition_rank
            size = max(0, min(size, parameter.ds_numel - start))  # without the padding of the last ranks
            # The inner optimizer holds the flat partitions only during a step.
            yield _Part(name, wrapper.fp32_partitioned_groups_flat[group], offset, start, size)
        elif hasattr(parameter, "_dp_group"):
            mapping = parameter._hp_mapping
            if mapping is not None:
                held, place = mapping.lp_fragment_address, mapping.hp_fragment_address
                yield _Part(name, masters[mapping.param_group_index], place.start, held.start, held.numel)
        else:
            size = parameter.numel()
            first, last = (size * (rank() + n) // world_size() for n in (0, 1)) if share else (0, size)
            yield _Part(name, masters[i], first, first, last - first)
