"""A vLLM engine in a process that records which files it reads.

Arguments: the folder of the policy. Prints JSON: the files by the place they are in, and whether a pickle was loaded.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = ("/dev", "/etc", "/lib", "/proc", "/sys", "/usr")


class Record:
    """An audit hook; it cannot be removed."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.own: set[str] = set()
        self.unpickled: set[str] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "pickle.find_class":
            self.unpickled.add(".".join(map(str, arguments)))
        elif event in ("tempfile.mkdtemp", "tempfile.mkstemp"):  # names that nobody can know before
            self.own.add(os.fsdecode(arguments[0]))
        elif event in ("open", "ctypes.dlopen", "import"):
            path = arguments[1] if event == "import" else arguments[0]
            if isinstance(path, str | bytes) and os.path.isabs(path):
                self.read.add(os.fsdecode(path))

    def by_place(self, **places: str) -> dict[str, list[str]]:
        """What was read in each place, by its name; the rest is under "elsewhere"."""
        installed = (sys.prefix, sys.base_prefix, str(ROOT), *SYSTEM)
        found: dict[str, list[str]] = {name: [] for name in (*places, "elsewhere")}
        for file in sorted(self.read):
            if any(Path(file).is_relative_to(folder) for folder in (*installed, *self.own)):
                continue
            inside = [name for name, folder in places.items() if Path(file).is_relative_to(folder)]
            found[inside[0] if inside else "elsewhere"].append(file)
        return found


def main(folder: str) -> None:
    """Start the engine, draw a response and print what was read."""
    tempfile.gettempdir()  # writes a file to find out whether it can
    record = Record()
    sys.addaudithook(record)
    from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
    from dphrl.machine.private import private_folder, private_temporary_folder
    from dphrl.policy.engines import make_engine
    from dphrl.policy.requests import Request

    config = EngineConfig(name="vllm", dtype="float32", max_model_len=64)
    with private_temporary_folder():
        engine = make_engine(Path(folder), config, HardwareConfig(kv_cache_gib=0.1))
        engine.generate([Request("p", 0, [3, 4, 5], 1, 1.0, 1.0, max_tokens=5)])
    found = record.by_place(policy=folder, private=str(private_folder("compiled")))
    print(json.dumps(found | {"unpickled": sorted(record.unpickled)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
