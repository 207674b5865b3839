"""Files whose time is in the future end a run before its first job."""

import os
import time
from pathlib import Path

from dphrl.machine.clock import from_the_future


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
