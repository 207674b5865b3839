"""Weights between the base and a policy: (1 - share) base + share policy (arXiv 2504.10478), a free baseline."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from dphrl.policy.check_model import tensor_files
from dphrl.store.tensors import Entry, file_order, write_tensors

# Elements of a tensor that are in memory at once.
_PIECE: Final = 1 << 22


def mix(base: Path, policy: Path, share: float, out: Path) -> dict[str, str]:
    """Write the folder of a mixture; all files but the weights are the policy's.

    Each weight is computed in float64 and rounded once, to the policy's dtype. A few megabytes are in memory at once.

    Args:
        base, policy: Hugging Face folders of models with the same tensors.
        share: of the policy, between 0 and 1.
        out: an empty folder.

    Returns:
        The sha256 of each file of weights.

    Raises:
        ValueError: a tensor of the policy is not in the base, or has another shape there.
    """
    of_base, of_policy = tensor_files(base), tensor_files(policy)
    digests = {}
    with ExitStack() as stack:
        opened = {
            file: stack.enter_context(safe_open(file, framework="pt"))
            for file in {*of_base.values(), *of_policy.values()}
        }

        def tensor(files: dict[str, Path], name: str) -> Any:
            return opened[files[name]].get_slice(name)

        for name in of_policy:
            shapes = [tensor(files, name).get_shape() if name in files else None for files in (of_policy, of_base)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"{policy}: its {name} has the shape {shapes[0]}, that of {base} {shapes[1]}; expected one model"
                )

        def pieces(names: list[str]) -> Iterator[memoryview]:
            for name in names:
                ours, theirs = tensor(of_policy, name), tensor(of_base, name)
                shape = ours.get_shape()
                rows = max(1, _PIECE * shape[0] // max(1, torch.Size(shape).numel())) if shape else 1
                for start in range(0, shape[0] if shape else 1, rows):
                    part = slice(start, start + rows) if shape else ...
                    mixed = (1.0 - share) * theirs[part].double() + share * ours[part].double()
                    yield memoryview(mixed.to(ours[part].dtype).contiguous().flatten().view(torch.uint8).numpy())

        for file in sorted({*of_policy.values()}):
            names = [name for name, place in of_policy.items() if place == file]
            tensors = {name: tensor(of_policy, name) for name in names}
            entries = {name: Entry(held.get_dtype(), tuple(held.get_shape())) for name, held in tensors.items()}
            digests[file.name] = write_tensors(out / file.name, entries, pieces(file_order(entries)), {"format": "pt"})
    for file in policy.iterdir():
        if file.is_file() and file.name not in digests and not file.name.startswith("."):
            shutil.copyfile(file, out / file.name)
    return digests
