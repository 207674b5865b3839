"""Declared schemas of tables, and the check of a table against its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import polars as pl


class SchemaError(ValueError):
    """A table breaks its declared schema; the text names the table, the column and the rows."""


@dataclass(frozen=True)
class Schema:
    """Columns with their dtypes, the primary key, the allowed values and the bounds of one kind of table.

    Columns not in `nullable` hold no null. `bounds` are inclusive; for list columns they hold for each element.
    """

    name: str
    key: tuple[str, ...]
    columns: dict[str, pl.DataType]
    nullable: Set[str] = frozenset()
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    version: int = 1

    def canonical(self) -> str:
        """A text that changes exactly when the declaration does."""
        parts = (self.name, self.version, self.key, self.columns, sorted(self.nullable), self.enums, self.bounds)
        return repr(parts)

    def frame(self, rows: Sequence[Any] | Mapping[str, Any] = ()) -> pl.DataFrame:
        """A frame of the declared columns and dtypes.

        Args:
            rows: a list of dicts (a key that is missing is null) or of tuples in declared order, or a dict of columns.
        """
        return pl.DataFrame(rows, schema=self.columns, orient="row")

    def conform(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        """The frame with columns in declared order and rows sorted by key, checked.

        Args:
            frame: the table; numbers are cast to the declared width (no float to an integer), other types must match.
            where: the file (or stage) named in errors.

        Raises:
            SchemaError: a column is missing, unknown or of another type; a null, an invalid value or a repeated key.
        """
        missing = [name for name in self.columns if name not in frame.columns]
        unknown = [name for name in frame.columns if name not in self.columns]
        if missing or unknown:
            raise SchemaError(
                f"{where}: schema {self.name!r} misses columns {missing} and has unknown columns {unknown}"
            )
        for name, dtype in self.columns.items():
            if not _widens(frame.schema[name], dtype):
                raise SchemaError(f"{where}: column {name!r} is {frame.schema[name]}, schema {self.name!r} has {dtype}")
        try:
            frame = frame.select(pl.col(name).cast(dtype) for name, dtype in self.columns.items())
        except pl.exceptions.PolarsError as error:
            raise SchemaError(f"{where}: schema {self.name!r}: {error}") from error
        self._check_values(frame, where)
        return frame.sort(self.key, maintain_order=True)

    def _check_values(self, frame: pl.DataFrame, where: str) -> None:
        for name, dtype in self.columns.items():
            column, listed = pl.col(name), isinstance(dtype, pl.List)
            value = pl.element() if listed else column
            errors = [] if name in self.nullable else [("has a null", value.is_null())]
            if name in self.enums:
                errors.append((f"has another value than {', '.join(self.enums[name])}", ~value.is_in(self.enums[name])))
            if name in self.bounds:
                low, high = self.bounds[name]
                # is_between is false for NaN, so a NaN is an error too.
                errors.append((f"leaves [{low}, {high}] or is not a number", ~value.is_between(low, high)))
            if listed:
                lists = [(text, column.list.eval(wrong).list.any()) for text, wrong in errors]
                errors = [*([] if name in self.nullable else [("has a null", column.is_null())]), *lists]
            for text, wrong in errors:
                rows = frame.filter(wrong)
                if rows.height:
                    example = "" if listed else f": {rows[name][0]!r}"
                    raise SchemaError(f"{where}: column {name!r} {text} in {self._named(rows)}{example}")
        repeated = frame.filter(pl.struct(self.key).is_duplicated())
        if repeated.height:
            raise SchemaError(f"{where}: key {self.key} repeats in {self._named(repeated)}")

    def _named(self, rows: pl.DataFrame) -> str:
        """The number of rows and the key of the first, for an error."""
        first = ", ".join(f"{name} {value!r}" for name, value in rows.select(self.key).row(0, named=True).items())
        return f"{rows.height} rows, first {first}"


def _widens(actual: pl.DataType, declared: pl.DataType) -> bool:
    """Whether a type is the declared one, up to its width; a column of nulls can become any type."""
    if isinstance(actual, pl.List) and isinstance(declared, pl.List):
        return _widens(actual.inner, declared.inner)  # type: ignore[arg-type]
    if declared.is_float():
        return actual.is_numeric() or actual == pl.Null
    return actual in (declared, pl.Null) or (actual.is_integer() and declared.is_integer())
