"""The optimizer's state on disk: master weights and moments by parameter, as safetensors, no pickle.

Each rank writes what it holds, as entries `<kind>/<parameter>/<first element>` of flattened float32. Any number of
ranks at any ZeRO stage can read it: each reads what it needs of all files.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor, nn

from dphrl.artifacts.tensors import Entry, file_order, write_tensors
from dphrl.ranks.collectives import rank, world_size
from dphrl.training.tensor_files import pieces

_FILES = "optimizer-*.safetensors"
_MASTER = "master"
_STEP = "step"


class _Part(NamedTuple):
    """What this rank holds of a parameter: `size` elements of it from `start`, those of `master` from `offset`.

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
    """Restore the optimizer from what `save_state` wrote, on any number of ranks and at any ZeRO stage.

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
    """Set the parameters of a model that require a gradient from the master weights that `save_state` wrote.

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
        self._found: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
        for path in sorted(folder.glob(_FILES)):
            file = safe_open(path, framework="pt")
            for key in file.keys():  # noqa: SIM118
                if key == _STEP:
                    self.step = file.get_tensor(key)
                else:
                    kind, name, start = key.split("/")
                    self._found[kind, name].append((int(start), file.get_slice(key)))
        self.kinds = sorted({kind for kind, _ in self._found})

    def check(self, sizes: dict[str, int]) -> None:
        """Raise ValueError unless the state is of parameters of these names and numbers of elements, and complete."""
        found = {name for _, name in self._found}
        if found != sizes.keys():
            raise self._error(f"is of {len(found)} parameters, and {len(sizes)} are trained now", found ^ sizes.keys())
        for kind in self.kinds:
            for name, size in sizes.items():
                end = 0
                for start, values in sorted(self._found[kind, name], key=lambda entry: entry[0]):
                    end += values.get_shape()[0] if start == end else 0
                if end != size:
                    raise self._error(f"has {end} consecutive elements of {size} in `{kind}`", {name})

    def read(self, kind: str, name: str, start: int, size: int) -> Tensor:
        """Some elements of a parameter or of a moment of it, float32; only these are read."""
        parts = []
        for first, values in sorted(self._found[kind, name], key=lambda entry: entry[0]):
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
    """What this rank holds of each trained parameter; with `share`, where all ranks hold all, its share of it."""
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
