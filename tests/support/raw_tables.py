"""Damage to a file, and the digest of rows."""

import hashlib
from pathlib import Path

import polars as pl

from dphrl.store.catalogue import SCHEMAS


def flip_byte(file: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def rows_digest(frame: pl.DataFrame, schema: str) -> str:
    """The sha256 of the rows in key order, as JSON lines: the digest in the footer of their table."""
    return hashlib.sha256(SCHEMAS[schema].conform(frame, schema).write_ndjson().encode()).hexdigest()
