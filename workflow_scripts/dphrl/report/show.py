"""Any artifact as readable text."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from safetensors import SafetensorError, safe_open

from dphrl.store.parquet import read_footer
from dphrl.text import visible

_LONGEST_VALUE = 400
_HEAD = 5


def show(file: Path) -> str:
    """The content of a file: footer, columns, first rows and one whole row of a table; names, types, shapes and
    metadata of tensors; the beginning of a text, such as a manifest. Control characters are symbols.

    Raises:
        OSError: as `check_is_file`.
        ValueError: the file cannot be read as the kind of file that its name says.
    """
    check_is_file(file)
    if file.suffix == ".parquet":
        return _sections(_table(file))
    if file.suffix == ".safetensors":
        return _sections(_tensors(file))
    try:
        text = file.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{file}: neither a table, tensors nor text ({error})") from error
    more = "" if len(text) <= 10 * _LONGEST_VALUE else f"\n... ({len(text)} characters)"
    return visible(text[: 10 * _LONGEST_VALUE]) + more


def check_is_file(path: Path) -> None:
    """Raise IsADirectoryError for a folder, which names its manifest, and FileNotFoundError where nothing is there."""
    if path.is_dir():
        manifest = Path(f"{path}.json")
        raise IsADirectoryError(f"{path}: a folder; name {manifest if manifest.is_file() else 'a file in it'}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; name an artifact, e.g. results/demo/tables/headline.parquet")


def _table(file: Path) -> dict[str, list[str]]:
    footer, table = read_footer(file), pl.scan_parquet(file, glob=False)
    frame, rows = table.head(_HEAD).collect(), table.select(pl.len()).collect().item()
    with pl.Config(tbl_rows=_HEAD, tbl_cols=-1, tbl_width_chars=160, fmt_str_lengths=40, tbl_hide_dataframe_shape=True):
        head = str(frame).splitlines()
    sections = {
        "footer": _indented(footer),
        f"columns, {rows} rows": [f"{name}: {dtype}" for name, dtype in frame.schema.items()],
        "first rows": head,
    }
    if frame.height:
        row = frame.row(0, named=True)
        sections["row 0 in full"] = [f"{name}: {_short(value)}" for name, value in row.items()]
    return sections


def _tensors(file: Path) -> dict[str, list[str]]:
    try:
        # The shape and type of a slice are read from the header alone.
        with safe_open(file, framework="numpy") as tensors:
            metadata = tensors.metadata() or {}
            slices = {name: tensors.get_slice(name) for name in sorted(tensors.keys())}
            lines = [f"{name}: {part.get_dtype()} {tuple(part.get_shape())}" for name, part in slices.items()]
    except SafetensorError as error:
        raise ValueError(f"{file}: not a readable safetensors file ({error})") from error
    return {"metadata": _indented(metadata), f"{len(lines)} tensors": lines}


def _sections(lines: dict[str, list[str]]) -> str:
    """Lines under their titles."""
    shown = {title: [visible(line, keep="\t") for line in visible_lines] for title, visible_lines in lines.items()}
    return "\n\n".join("\n  ".join([f"{title}:", *visible_lines]) for title, visible_lines in shown.items())


def _indented(value: object) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}... ({len(text)} characters)"
