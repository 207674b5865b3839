"""safetensors files written from left to right: only a piece of a tensor needs to be in memory.

The bytes are equal to the output of `safetensors.torch.save_file`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

# Bytes per element, by the names of dtypes in safetensors; tensors are in this order in a file, then by name.
_WIDTHS = {"F32": 4, "I32": 4, "BF16": 2, "F16": 2}
_ALIGNMENT = 8

Bytes = bytes | memoryview


class Entry(NamedTuple):
    """A tensor in a file: its dtype as safetensors names it, e.g. "F32", and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return _WIDTHS[self.dtype] * math.prod(self.shape)


def file_order(entries: Mapping[str, Entry]) -> list[str]:
    """The names of tensors, in the order of a file."""
    dtypes = [*_WIDTHS]
    return sorted(entries, key=lambda name: (dtypes.index(entries[name].dtype), name))


def write_tensors(
    path: Path, entries: Mapping[str, Entry], data: Iterable[Bytes], metadata: Mapping[str, str] | None = None
) -> str:
    """Write a file and return the sha256 of its bytes.

    Args:
        path: written in place; the caller renames it.
        data: the bytes of all tensors in file order, in pieces of any size.
        metadata: text that describes the file.

    Raises:
        ValueError: `data` has more or fewer bytes than the entries.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in file_order(entries):
        start, end = end, end + entries[name].size
        header[name] = {"dtype": entries[name].dtype, "shape": [*entries[name].shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    begin = [len(text).to_bytes(_ALIGNMENT, "little"), text]
    digest, written = hashlib.sha256(), 0
    with path.open("wb") as file:
        for piece in chain(begin, data):
            written += file.write(piece)
            digest.update(piece)
    if written != (expected := sum(map(len, begin)) + end):
        raise ValueError(f"{path}: {written} bytes with its header, expected {expected}")
    return digest.hexdigest()
