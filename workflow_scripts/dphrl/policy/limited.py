"""Reading the model folder of a stranger: every error names a file, and a process with limits does the work.

Libraries read such a folder in native code, which obeys no signal handler, aborts where memory is short, and panics.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Final

# Of an empty folder: the imports take 10 s and 1 GiB.
_SECONDS, _BYTES = 60, 4 * 2**30
# Checks read each weight once. A merge holds bfloat16 weights in float32 two times.
_READ_PER_SECOND, _HELD_PER_BYTE = 20_000_000, 6
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>

# In a process with limits: to its parent, what it is reading, and at last its error, a line of JSON each.
_report: IO[str] | None = None


@contextmanager
def reading(problem: str, advice: str) -> Iterator[None]:
    """Name what a library reads in the block in its errors, and where a limit ends this process.

    Raises:
        ValueError: "PROBLEM (the library's error): ADVICE".
    """
    if _report:
        print(json.dumps([problem, advice]), file=_report)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of Rust is no Exception.
        raise ValueError(f"{problem} ({_reason(error)}): {advice}") from error


def _reason(error: BaseException) -> str:
    """The objection of a library on one line, without a proposal to run the code of a folder."""
    first, *others = str(error).strip().splitlines() or [""]
    if "trust_remote_code" in str(error):
        return "it needs code that comes with it"
    text = others[-1].strip() if others and first.endswith(":") else first
    return text if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {text}"


def run_limited(function: Callable[..., None], *paths: Path) -> None:
    """Call a function of a module in a process with limits of CPU time and memory, which grow with its files.

    Args:
        paths: the arguments of the function: files and folders.

    Raises:
        ValueError: the function raised an error, or a limit ended it.
    """
    # Of folders without their subfolders.
    files = [file for path in paths for file in (path.glob("*") if path.is_dir() else [path]) if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    seconds, memory = _SECONDS + size // _READ_PER_SECOND, _BYTES + size * _HELD_PER_BYTE
    program = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    arguments = [function.__module__, function.__qualname__, os.getpid(), seconds, memory, *paths]
    # The stacks of threads would count as memory.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*program, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, check=False)
    if not done.returncode:
        return
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode > 0 and said:
        raise ValueError(said[-1])
    problem, advice = said[-1] if said else (" ".join([function.__name__, *map(str, paths)]), "see the log")
    ends = {
        -signal.SIGXCPU: f"not read after {seconds} s of CPU time",
        -signal.SIGABRT: f"more than {memory / 2**30:.0f} GiB of memory are needed",
    }
    raise ValueError(f"{problem} ({ends.get(done.returncode, f'the process ended with {done.returncode}')}): {advice}")


def main() -> None:
    """The process with limits."""
    global _report
    module, name, parent, seconds, memory, *paths = sys.argv[1:]
    # Standard output is the report; what libraries print goes to the log on standard error.
    _report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # A parent that ended before the call sends no signal.
    if os.getppid() != int(parent):
        sys.exit(1)
    for kind, limit in (("CPU", int(seconds)), ("DATA", int(memory)), ("CORE", 0)):
        number = getattr(resource, f"RLIMIT_{kind}")
        hard = resource.getrlimit(number)[1]
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (soft, hard))
    try:
        getattr(import_module(module), name)(*map(Path, paths))
        status = 0
    except ValueError as error:
        status = 1
        print(json.dumps(str(error)), file=_report)
    except BaseException as error:
        status = 1
        traceback.print_exc()
        print(json.dumps(f"{name} of {paths[0]}: {_reason(error)}"), file=_report)
    # A normal exit with torch takes 2 s.
    os._exit(status)
