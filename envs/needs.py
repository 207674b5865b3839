"""Names what `make install` needs and no package of it brings: Python 3.11, its headers, a C++ compiler, libnuma.

Compiled kernels of PyTorch and vLLM need them while a run works, so without them a run would fail late. The names in
brackets are Debian's packages. Older versions of Python can run this too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator


def missing(gpu: bool) -> Iterator[str]:
    """What is not there, one line each; with `gpu` without what only vLLM on a CPU needs."""
    if sys.version_info < (3, 11):  # noqa: UP036 - that of the machine, not of the environment
        yield "Python 3.11 or newer: make PYTHON=python3.12 ..."
        return
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        yield "Python.h, a header of " + sys.executable + " (python3-dev)"
    if not shutil.which(os.environ.get("CXX", "g++")):
        yield "a C++ compiler: " + os.environ.get("CXX", "g++") + " (g++)"
    if not gpu:
        try:
            ctypes.CDLL("libnuma.so.1")
        except OSError:
            yield "libnuma.so.1 (libnuma1)"


if __name__ == "__main__":
    found = list(missing("gpu" in sys.argv[1:]))
    for line in found:
        sys.stderr.write("Needed and not found: " + line + "\n")
    sys.exit(bool(found))
