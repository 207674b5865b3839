"""Private folders: where they are, and those that another user could have filled."""

import os
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from dphrl.machine.private import (
    private_folder,
    private_temporary_folder,
    use_private_caches,
)

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files; no cache folder is set, and the home is an empty folder."""
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def _mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_it_is_in_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert private_folder("locks") == tmp_path / "home/.cache/dphrl/locks"
    for place in ("relative", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        assert private_folder("a/b") == tmp_path / "home/.cache/dphrl/a/b"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new/cache"))
    assert private_folder("locks") == tmp_path / "new/cache/dphrl/locks"


def test_nobody_else_can_enter_it() -> None:
    before = os.umask(0)
    try:
        folder = private_folder("locks")
    finally:
        os.umask(before)
    assert (_mode(folder), _mode(folder.parent)) == (0o700, 0o700)


@pytest.mark.parametrize("home", ["/proc/missing", "file", "~"])
def test_a_home_that_cannot_be_written_is_named_with_the_variable_to_set(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / home))
    if home == "~":  # a container whose user has no entry in /etc/passwd
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)
    with pytest.raises(PermissionError, match=rf"{home}/.cache/dphrl: .*set XDG_CACHE_HOME"):
        private_folder("locks")


@needs_root
def test_a_folder_that_another_user_made_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "home/.cache/dphrl"
    taken.mkdir(parents=True)
    taken.chmod(0o700)
    os.chown(taken, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match=f"{taken}: expected a folder .* belongs to user 0 .*XDG_CACHE_HOME"):
        private_folder("locks")
    assert [*taken.iterdir()] == []


def test_a_folder_that_others_may_use_and_a_link_are_refused(tmp_path: Path) -> None:
    private_folder("locks")
    ours, elsewhere = tmp_path / "home/.cache/dphrl", tmp_path / "elsewhere"
    ours.chmod(0o701)
    with pytest.raises(PermissionError, match="expected a folder of mode 700"):
        private_folder("locks")
    ours.chmod(0o700)
    ours.rename(elsewhere)
    ours.symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="expected a folder of mode 700"):
        private_folder("more")
    assert [path.name for path in elsewhere.iterdir()] == ["locks"]


def test_caches_of_compiled_code_are_private_and_shared_by_all_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set by torch itself when it is asked for its default.
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "TORCH_EXTENSIONS_DIR"):
        monkeypatch.setenv(variable, f"{tempfile.gettempdir()}/torchinductor_{os.environ.get('USER')}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", os.environ.copy())
        use_private_caches()
        first = {
            name: value for name, value in os.environ.items() if str(tmp_path / "home") in value and name != "HOME"
        }
        use_private_caches()
        assert first.items() <= os.environ.items()
    assert {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "TORCH_EXTENSIONS_DIR"} <= first.keys()
    (compiled,) = {Path(value).parent for value in first.values()}
    assert compiled.parent == private_folder("compiled")


@pytest.mark.parametrize("error", [None, RuntimeError()])
def test_temporary_files_of_a_job_are_in_a_folder_that_ends_with_it(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    with suppress(RuntimeError), private_temporary_folder():
        inside = Path(tempfile.gettempdir())
        assert (inside.parent, _mode(inside)) == (temporary, 0o700)
        child = [sys.executable, "-c", "import tempfile; open(tempfile.mkdtemp() + '/left', 'w')"]
        subprocess.run(child, check=True)
        assert len([*inside.iterdir()]) == 1
        if error:
            raise error
    assert [*temporary.iterdir()] == []
