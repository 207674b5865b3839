"""safetensors files written piece by piece: the bytes of the library."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from dphrl.store.files import sha256_file
from dphrl.store.tensors import Entry, file_order, write_tensors

DTYPES = {torch.float32: "F32", torch.int32: "I32", torch.bfloat16: "BF16"}
TENSORS = {
    "b.weight": torch.arange(6.0).view(2, 3),
    "layer.10": torch.arange(5).int(),
    "layer.2": torch.arange(7).bfloat16(),
    "é/4": torch.zeros(3),
    "step": torch.tensor(4.0),
    "none": torch.empty(0, 5),
}


def _data(tensor: Tensor) -> memoryview:
    return memoryview(tensor.flatten().view(torch.uint8).numpy())


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_the_bytes_are_those_of_the_library(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    entries = {name: Entry(DTYPES[tensor.dtype], tuple(tensor.shape)) for name, tensor in TENSORS.items()}
    pieces = (_data(TENSORS[name])[i : i + 5] for name in file_order(entries) for i in range(0, entries[name].size, 5))
    digest = write_tensors(tmp_path / "ours", entries, pieces, metadata)
    save_file(TENSORS, tmp_path / "theirs", metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert digest == sha256_file(tmp_path / "ours")


@pytest.mark.parametrize("data", [[], [b"1234"], [b"123456789"]])
def test_a_file_with_missing_or_surplus_bytes_is_an_error(data: list[bytes], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tensors: \d+ bytes with its header, expected \d+"):
        write_tensors(tmp_path / "tensors", {"a": Entry("F32", (2,))}, data)
