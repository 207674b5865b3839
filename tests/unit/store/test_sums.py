"""SHA256SUMS: which files of a run it lists, as `sha256sum` reads it."""

import os
import subprocess
from pathlib import Path

import pytest

from dphrl.store.files import sha256_file, visible_files
from dphrl.store.manifest import SUMS, read_sums, write_sums

LISTED = ["figures/a b.svg", "policies/base.json", "policies/base/model.safetensors", "tables/x.parquet"]


def _write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.fsencode(name))


def _accepted(root: Path) -> bool:
    return subprocess.run(["sha256sum", "--check", "--status", "--strict", SUMS], cwd=root).returncode == 0


def test_the_files_are_listed_by_path_as_sha256sum_accepts_them(tmp_path: Path) -> None:
    _write(tmp_path, *LISTED, "notes.md")
    write_sums(tmp_path, [tmp_path / name for name in reversed(LISTED)], {})
    found = read_sums(tmp_path)
    assert list(found) == sorted(LISTED)
    assert found == {name: sha256_file(tmp_path / name) for name in found}
    assert _accepted(tmp_path)
    (tmp_path / LISTED[0]).write_text("other")
    assert not _accepted(tmp_path)


def test_files_below_a_folder_are_those_behind_links_too_and_no_hidden_ones(tmp_path: Path) -> None:
    _write(tmp_path, "given/model.safetensors", "run/.tmp/0.parquet", "run/.a", "run/b")
    (tmp_path / "run/weights").symlink_to(tmp_path / "given")
    (tmp_path / "run/nothing").symlink_to("nowhere")
    assert sorted(visible_files(tmp_path / "run")) == [tmp_path / "run/b", tmp_path / "run/weights/model.safetensors"]


def test_a_sha256_that_is_known_is_not_computed_again(tmp_path: Path) -> None:
    _write(tmp_path, *LISTED)
    write_sums(tmp_path, [tmp_path / name for name in LISTED], {tmp_path / LISTED[0]: "0" * 64})
    assert read_sums(tmp_path)[LISTED[0]] == "0" * 64
    assert read_sums(tmp_path)[LISTED[1]] == sha256_file(tmp_path / LISTED[1])


@pytest.mark.parametrize("name", ["é", " a", "*a", os.fsdecode(b"\xff")])
def test_a_name_of_any_characters_is_as_sha256sum_writes_it(tmp_path: Path, name: str) -> None:
    _write(tmp_path, name)
    write_sums(tmp_path, [tmp_path / name], {})
    written = subprocess.run([b"sha256sum", b"--", os.fsencode(name)], cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / SUMS).read_bytes() == written.stdout
    assert _accepted(tmp_path)
    assert list(read_sums(tmp_path)) == [name]


@pytest.mark.parametrize(
    "change", [lambda text: text[:-5], lambda text: text.replace(b"  ", b" ", 1), lambda text: b""]
)
def test_a_damaged_list_is_refused(tmp_path: Path, change: object) -> None:
    _write(tmp_path, *LISTED)
    write_sums(tmp_path, [tmp_path / name for name in LISTED], {})
    assert callable(change)
    (tmp_path / SUMS).write_bytes(change((tmp_path / SUMS).read_bytes()))
    with pytest.raises(ValueError, match=r"line 1 is no sha256 with a path|its last line is cut off"):
        read_sums(tmp_path)
