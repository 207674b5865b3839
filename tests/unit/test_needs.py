"""`make install` says at once what only the machine can bring."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

NEEDS = Path(__file__).resolve().parents[2] / "envs" / "needs.py"


def needs(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """The status, and what is missing."""
    command = [sys.executable, str(NEEDS), *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("environment", "compiler"), [({"PATH": "/nowhere"}, "g++"), ({"CXX": "no-such-compiler"}, "no-such-compiler")]
)
def test_a_missing_compiler_is_named(environment: dict[str, str], compiler: str) -> None:
    status, (line,) = needs("cpu", **environment)
    assert status == 1
    assert compiler in line


def test_missing_headers_of_python_are_named(tmp_path: Path) -> None:
    """As with Debian's Python without python3-dev: the folder of its headers is not there."""
    (tmp_path / "sysconfig.py").write_text(f"def get_path(name): return {str(tmp_path / 'include')!r}\n")
    status, lines = needs("cpu", PYTHONPATH=str(tmp_path))
    assert (status, len(lines)) == (1, 1)
    assert lines[0].endswith("(python3-dev)")
    assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
