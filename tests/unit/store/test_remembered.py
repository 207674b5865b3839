"""Digests of large files that are computed once: when a file is read again, and which digests are not trusted."""

import os
import time
from pathlib import Path

import pytest

from dphrl.store import files
from dphrl.store.files import remembered_sha256, sha256_file
from dphrl.store.manifest import ManifestError, verified_manifest, write_manifest

# Longer than a tick of a file system's clock: the two writes of a test are at different times.
TICK = 0.05


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each file that is read; the current folder is one in which Snakemake runs."""
    sizes: list[int] = []

    def count(path: Path) -> str:
        sizes.append(path.stat().st_size)
        return sha256_file(path)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "sha256_file", count)
    return sizes


@pytest.fixture
def policy(hashed: list[int], tmp_path: Path) -> Path:
    """The manifest of a folder of two files."""
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    (folder / "config.json").write_text("{}")
    write_manifest(tmp_path / "policy.json", {})
    hashed.clear()
    return tmp_path / "policy.json"


def test_the_second_reading_of_a_manifest_reads_no_file_of_its_folder(policy: Path, hashed: list[int]) -> None:
    verified_manifest(policy)
    assert sorted(hashed) == [2, 7]
    hashed.clear()
    verified_manifest(policy)
    assert sum(hashed) == 0
    # Another path to the same folder.
    verified_manifest(Path("policy.json"))
    assert sum(hashed) == 0


def test_a_file_that_changed_is_read_again_whatever_its_time_of_modification(policy: Path, hashed: list[int]) -> None:
    weights = policy.with_suffix("") / "model.safetensors"
    before = weights.stat()
    verified_manifest(policy)
    hashed.clear()
    time.sleep(TICK)
    weights.write_text("Weights")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ManifestError, match=r"model\.safetensors: differs"):
        verified_manifest(policy)
    assert hashed == [7]
    # Another file under this name.
    (policy.with_suffix("") / "new").write_text("weights")
    os.utime(policy.with_suffix("") / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    time.sleep(TICK)
    os.replace(policy.with_suffix("") / "new", weights)
    verified_manifest(policy)
    assert hashed == [7, 7]


@pytest.mark.parametrize("text", ["", "\x00\xff", '["/a", 7, 1] ' + "0" * 64])
def test_a_damaged_entry_is_none(policy: Path, hashed: list[int], text: str) -> None:
    verified_manifest(policy)
    for entry in Path(".snakemake").glob("*/*"):
        entry.write_text(text, encoding="latin-1")
    hashed.clear()
    for expected in ([2, 7], []):
        verified_manifest(policy)
        assert sorted(hashed) == expected
        hashed.clear()


def test_a_file_that_changes_while_it_is_read_is_read_again(
    policy: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = policy.with_suffix("") / "model.safetensors"

    def slow(path: Path) -> str:
        digest = sha256_file(path)
        time.sleep(TICK)
        weights.write_text("Weights")
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(files, "sha256_file", slow)
        before = remembered_sha256(weights)
    assert remembered_sha256(weights) == sha256_file(weights) != before
