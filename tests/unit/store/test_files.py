"""Files that appear whole or not at all, folders, manifests, progress."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from dphrl.store.files import (
    database_states,
    from_the_future,
    link_files,
    replacing,
    replacing_folder,
    write_text,
)
from dphrl.store.manifest import (
    ManifestError,
    folder_of,
    manifest_digest,
    read_manifest,
    remove_folders,
    verified_manifest,
    write_manifest,
)

METRICS = pl.DataFrame({"step": [1], "metric": ["x"], "value": [1.0]})


class Interrupted(BaseException):
    """Like KeyboardInterrupt, not an Exception."""


def _content(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {file.relative_to(folder).as_posix(): file.read_text(errors="replace") for file in files}


def test_the_states_of_databases_follow_name_size_and_time_and_need_no_reading(tmp_path: Path) -> None:
    file = tmp_path / "a/a.sqlite"
    file.parent.mkdir()
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: file.touch(mode=0),
        lambda: os.utime(file, ns=(1, 1)),
        lambda: (os.truncate(file, 5), os.utime(file, ns=(1, 1))),
        lambda: file.rename(file.with_name("b.sqlite")),
        lambda: file.symlink_to("nothing"),
    ]
    seen = set()
    for change in changes:
        change()
        seen.add(database_states(tmp_path))
    assert len(seen) == len(changes)
    assert database_states(tmp_path) in seen


def test_files_of_the_future_are_named(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "missing.jsonl")]
    for file in files[:2]:
        file.touch()
    assert from_the_future(map(str, [*files, tmp_path])) is None
    for file in files[:2]:
        os.utime(file, (time.time() + 3600,) * 2)
    message = from_the_future(map(str, files))
    assert message is not None
    assert message.startswith(f"{files[0]} and 1 more: its time is in the future.")


def test_a_failure_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.txt"
    write_text(path, "old")
    before = _content(tmp_path)

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise Interrupted

    with pytest.raises(Interrupted):
        fail()
    assert _content(tmp_path) == before == {"new/x.txt": "old"}


def test_the_new_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.parent == tmp_path
        with replacing(path) as other:
            other.write_text("of another writer")
        assert path.read_text() == "of another writer"
    assert _content(tmp_path) == {"x.txt": "new"}


def test_a_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "step2"
    with replacing_folder(folder) as new:
        (new / "model-1.safetensors").write_text("1")
        (new / "model-2.safetensors").write_text("2")
        (new / "config.json").write_text("{}")
    # A loader would read weights that nothing lists.
    write_text(folder / "below" / "more.safetensors", "3")
    (folder / ".snakemake_timestamp").touch()
    with replacing_folder(folder) as new:
        assert list(new.iterdir()) == []
        (new / "model.safetensors").write_text("12")
        (new / "config.json").write_text("[]")
        (new / "below").mkdir()
        (new / "below" / "vocab.txt").write_text("a")
    assert _content(folder) == {
        "model.safetensors": "12",
        "config.json": "[]",
        "below/vocab.txt": "a",
        ".snakemake_timestamp": "",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["step2"]


def test_a_failure_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = tmp_path / "step2"
    with replacing_folder(folder) as new:
        (new / "a").write_text("1")

    def fail() -> None:
        with replacing_folder(folder) as new:
            (new / "a").write_text("2")
            (new / "b").write_text("3")
            raise Interrupted

    with pytest.raises(Interrupted):
        fail()
    assert _content(tmp_path) == {"step2/a": "1"}
    assert [path.name for path in tmp_path.iterdir()] == ["step2"]


def test_a_model_is_linked_not_copied(tmp_path: Path) -> None:
    source, folder = tmp_path / "given", tmp_path / "base"
    source.mkdir()
    files = [source / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    for file in [*files, source / "optimizer.pt"]:
        file.write_text(file.name)
    link_files(files, folder)
    assert _content(folder) == {file.name: file.name for file in files}
    assert all(file.is_symlink() for file in folder.iterdir())
    write_manifest(tmp_path / "base.json", {})
    assert sorted(read_manifest(tmp_path / "base.json")["files"]) == sorted(file.name for file in files)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The manifest of a folder with two files, one of them in a subfolder, and hidden ones."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policies" / "step4"
    (folder / "below").mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    (folder / "below" / "vocab.txt").write_text("words")
    (folder / ".model.safetensors.0.tmp").write_text("an orphan of another writer")
    (folder / ".snakemake_timestamp").touch()
    write_manifest(folder.with_suffix(".json"), {"stage": "train", "seed": 1})
    return folder.with_suffix(".json")


def test_a_manifest_lists_files_with_size_and_sha256(policy: Path) -> None:
    found = read_manifest(policy)
    assert found.pop("footer_sha256")
    assert found == {
        "files": {
            "model.safetensors": {"size": 7, "sha256": hashlib.sha256(b"weights").hexdigest()},
            "below/vocab.txt": {"size": 5, "sha256": hashlib.sha256(b"words").hexdigest()},
        },
        "stage": "train",
        "seed": 1,
    }


def test_a_changed_manifest_and_another_file_in_its_place_are_refused_by_name(policy: Path) -> None:
    text = policy.read_text()
    changes = {'"seed": 1': '"seed": 2', '"size": 7': '"size": 8', "footer_sha256": "footer_sha257"}
    changed = [text.replace(old, new).encode() for old, new in changes.items()]
    assert text.encode() not in changed
    for content in (*changed, b"", b"[]", b"{}", b"\xff"):
        policy.write_bytes(content)
        with pytest.raises(ManifestError, match=f"^{policy}: no manifest .*; delete it and run snakemake again"):
            read_manifest(policy)


def test_manifests_and_folders_are_removed_and_nothing_else(policy: Path) -> None:
    other = policy.with_name("step8.json")
    (policy.with_name("step2") / "below").mkdir(parents=True)
    write_manifest(other, {})
    # Without its manifest a folder is half removed; the last one was never there.
    remove_folders(str(policy.with_name(name)) for name in ("step4.json", "step2.json", "never.json"))
    assert [path.name for path in policy.parent.iterdir()] == ["step8.json"]
    remove_folders([str(policy)])


def test_a_removal_that_is_interrupted_has_removed_the_manifest(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr("dphrl.store.manifest.shutil.rmtree", interrupt)
        with pytest.raises(Interrupted):
            remove_folders([str(policy)])
    assert [path.name for path in policy.parent.iterdir()] == ["step4"]
    remove_folders([str(policy)])
    assert not list(policy.parent.iterdir())


def test_the_digest_of_a_manifest_is_over_content_only(policy: Path) -> None:
    digest = manifest_digest(read_manifest(policy))
    write_manifest(policy, {"stage": "another"})
    assert manifest_digest(read_manifest(policy)) == digest
    (folder_of(policy) / "model.safetensors").rename(folder_of(policy) / "model2.safetensors")
    write_manifest(policy, {})
    assert manifest_digest(read_manifest(policy)) != digest


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("model.safetensors", None, "listed in step4.json but missing"),
        ("model.safetensors", "Weights", "differs from step4.json"),
        ("model.safetensors", "weights of another size", "differs from step4.json"),
        ("model-2.safetensors", "left over", "not listed in step4.json"),
        ("below/more.txt", "left over", "not listed in step4.json"),
    ],
)
def test_a_folder_that_is_not_as_listed_is_refused(policy: Path, file: str, text: str | None, message: str) -> None:
    path = folder_of(policy) / file
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(ManifestError) as error:
        verified_manifest(policy)
    assert str(error.value).startswith(f"{path}: {message}")
    assert read_manifest(policy) == json.loads(policy.read_text())


def _fill(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """Write a file into a device that is always full."""

    def into(path: Path) -> None:
        with replacing(path) as temporary:
            temporary.symlink_to("/dev/full")
            write(temporary)

    return into


def _fill_folder(folder: Path) -> None:
    with replacing_folder(folder) as new:
        (new / "model.safetensors").symlink_to("/dev/full")
        (new / "model.safetensors").write_bytes(b"0" * 100_000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "write",
    [
        _fill(lambda path: METRICS.lazy().sink_parquet(path, engine="streaming")),
        _fill_folder,
    ],
    ids=["table", "folder"],
)
def test_a_full_disk_is_named_with_the_file(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "a" / "x.parquet"
    with pytest.raises(OSError, match=f"the disk or the quota is full; free space and run snakemake again: '{path}'"):
        write(path)
    assert [file.name for file in (tmp_path / "a").iterdir()] in ([], ["x.parquet"])
    assert not path.is_file()
