"""Tables under any footer, with a sha256 that fits: damage that only the checks of content can find."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.artifacts.tables import footer_text, seal


def write_raw(frame: pl.DataFrame, path: Path, footer: object, **options: Any) -> None:
    """A table without any check, under a footer of any shape or its text, and a sha256 of the file that fits."""
    metadata = {"dphrl": footer if isinstance(footer, str) else json.dumps(footer)}
    if isinstance(footer, dict):
        metadata = {"dphrl": footer_text({name: value for name, value in footer.items() if name != "file_sha256"})}
    elif "file_sha256" not in metadata["dphrl"]:
        metadata["sha256"] = footer_text({"of": "this file"})
    frame.write_parquet(path, metadata=metadata, **options)
    seal(path)


def flip_byte(file: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
