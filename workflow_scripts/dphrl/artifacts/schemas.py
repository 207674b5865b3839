"""The declared schema of every table that passes between stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

VERDICTS = (
    "correct",
    "wrong",
    "no_answer",
    "refused",
    "parse_error",
    "runtime_error",
    "timeout",
    "too_large",
    "out_of_memory",
    "gold_error",
    "infrastructure_error",
)
GOLD_REASONS = ("unrunnable", "empty", "nondeterministic", "order-ambiguous", "conflicting")


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
    nullable: frozenset[str] = frozenset()
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    version: int = 1

    def canonical(self) -> str:
        """A text that changes exactly when the declaration does."""
        parts = (self.name, self.version, self.key, self.columns, sorted(self.nullable), self.enums, self.bounds)
        return repr(parts)

    def conform(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        """The frame with columns in declared order and rows sorted by key, checked.

        Args:
            frame: the table; numbers are cast to the declared width (no float to an integer), other types must match.
            where: the file (or stage) named in errors.

        Raises:
            SchemaError: a column is missing, unknown or of another type, a null, a value outside, a repeated key.
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
        return frame.sort(self.key, maintain_order=True) if self.key else frame

    def _check_values(self, frame: pl.DataFrame, where: str) -> None:
        for name, dtype in self.columns.items():
            column, listed = pl.col(name), isinstance(dtype, pl.List)
            offences = list(self._offences(name, pl.element() if listed else column))
            if listed:
                lists = [(text, column.list.eval(offence).list.any()) for text, offence in offences]
                offences = [*([] if name in self.nullable else [("has a null", column.is_null())]), *lists]
            for text, offence in offences:
                rows = frame.filter(offence)
                if rows.height:
                    found = "" if listed else f": {rows[name][0]!r}"
                    raise SchemaError(f"{where}: column {name!r} {text} in {self._named(rows)}{found}")
        if self.key:
            repeated = frame.filter(pl.struct(self.key).is_duplicated())
            if repeated.height:
                raise SchemaError(f"{where}: key {self.key} repeats in {self._named(repeated)}")

    def _offences(self, name: str, value: pl.Expr) -> Iterator[tuple[str, pl.Expr]]:
        """What may be wrong with a value of a column, or with an element of a list in it."""
        if name not in self.nullable:
            yield "has a null", value.is_null()
        if name in self.enums:
            yield f"has another value than {', '.join(self.enums[name])}", ~value.is_in(self.enums[name])
        if name in self.bounds:
            low, high = self.bounds[name]
            # is_between is false for NaN, so a NaN is an offence too.
            yield f"leaves [{low}, {high}] or is not a number", ~value.is_between(low, high)

    def _named(self, rows: pl.DataFrame) -> str:
        """How many rows, and the key of the first."""
        first = ", ".join(f"{name} {value!r}" for name, value in rows.select(self.key).row(0, named=True).items())
        return f"{rows.height} rows, first {first}"


def _widens(found: pl.DataType, declared: pl.DataType) -> bool:
    """Whether a column is of the declared type but for its width; a column without values has no type of its own."""
    if isinstance(found, pl.List) and isinstance(declared, pl.List):
        return _widens(found.inner, declared.inner)  # type: ignore[arg-type]
    if declared.is_float():
        return found.is_numeric() or found == pl.Null
    return found in (declared, pl.Null) or (found.is_integer() and declared.is_integer())


_STR, _I32, _I64, _F32, _F64, _BOOL = pl.String(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64(), pl.Boolean()
_TOKENS, _LOGPROBS = pl.List(pl.Int32()), pl.List(pl.Float32())
_INF = float("inf")
_POLICY = {"method": _STR, "seed": _I32, "step": _I32, "dataset": _STR}
_INTERVAL = {"value": _F64, "low": _F64, "high": _F64}
_RATES = {f"{rate}{end}": _F64 for rate in ("keep", "explore") for end in ("", "_low", "_high")}
_LEVEL = {"level": _STR, "prompts": _I32}
_CLASSES = ("answers", "programs", "skeletons")

SCHEMAS: dict[str, Schema] = {
    schema.name: schema
    for schema in (
        Schema(
            "prompts",
            ("prompt_id",),
            {
                "prompt_id": _STR,
                "task": _STR,
                "messages": _STR,
                "prompt_token_ids": _TOKENS,
                "source": _STR,
                "source_index": _I32,
            },
            bounds={"prompt_token_ids": (0, _INF), "source_index": (0, _INF)},
        ),
        Schema(
            "rejected",
            ("source_index",),
            {"source_index": _I32, "reason": _STR, "detail": _STR, "duplicate_of": _I32},
            nullable=frozenset({"duplicate_of"}),
            enums={"reason": ("duplicate", "overlong", "malformed")},
        ),
        Schema(
            "gold",
            ("prompt_id",),
            {"prompt_id": _STR, "ground_truth": _STR, "verdict": _STR, "kept": _BOOL, "reason": _STR},
            nullable=frozenset({"reason"}),
            enums={"verdict": VERDICTS, "reason": GOLD_REASONS},
        ),
        Schema(
            "overlap",
            ("prompt_id", "dataset"),
            {"prompt_id": _STR, "dataset": _STR, "kind": _STR},
            enums={"kind": ("exact", "normalised")},
        ),
        Schema(
            "datasets",
            ("dataset",),
            {
                "dataset": _STR,
                **dict.fromkeys(("rows", "prompts", "duplicate", "overlong", "malformed", "kept"), _I64),
                **dict.fromkeys(("unrunnable", "empty", "nondeterministic", "order_ambiguous", "conflicting"), _I64),
                **dict.fromkeys(("overlap_exact", "overlap_normalised"), _I64),
            },
        ),
        Schema(
            "rollouts",
            ("prompt_id", "sample_index"),
            {
                "prompt_id": _STR,
                "sample_index": _I32,
                "seed": _I64,
                "token_ids": _TOKENS,
                "sampler_logprobs": _LOGPROBS,
                "text": _STR,
                "finish_reason": _STR,
            },
            enums={"finish_reason": ("stop", "length")},
            bounds={"sample_index": (-1, _INF), "token_ids": (0, _INF), "sampler_logprobs": (-_INF, 0.0)},
        ),
        Schema(
            "verdicts",
            ("prompt_id", "sample_index"),
            {
                "prompt_id": _STR,
                "sample_index": _I32,
                "verdict": _STR,
                "correct": _BOOL,
                "reward": _F64,
                "extracted": _STR,
                "answer_class": _STR,
                "program_class": _STR,
                "detail": _STR,
            },
            nullable=frozenset({"extracted", "answer_class", "program_class", "detail"}),
            enums={"verdict": VERDICTS[:-1]},
            bounds={"sample_index": (-1, _INF), "reward": (0.0, 1.0)},
        ),
        Schema(
            "partition",
            ("prompt_id",),
            {
                "prompt_id": _STR,
                "n": _I32,
                "c": _I32,
                "subset": _STR,
                "reason": _STR,
                "reference_sample": _I32,
            },
            nullable=frozenset({"reference_sample"}),
            enums={"subset": ("pef", "exp", "dropped")},
            bounds={"n": (0, _INF), "c": (0, _INF)},
        ),
        Schema(
            "reference_index",
            ("row",),
            {
                "row": _I32,
                "prompt_id": _STR,
                "sample_index": _I32,
                "start": _I64,
                "prompt_length": _I32,
                "response_length": _I32,
                "response_start": _I64,
                "max_sampler_gap": _F64,
            },
            nullable=frozenset({"max_sampler_gap"}),
            bounds={"start": (0, _INF), "prompt_length": (1, _INF), "response_length": (1, _INF)},
        ),
        Schema(
            "metrics", ("step", "metric"), {"step": _I32, "metric": _STR, "value": _F64}, bounds={"step": (1, _INF)}
        ),
        Schema(
            "timings",
            ("stage", "part"),
            {"stage": _STR, "part": _STR, "seconds": _F64, "tokens": _I64, "tokens_per_s": _F64, "max_rss_mib": _F64},
            nullable=frozenset({"tokens", "tokens_per_s"}),
        ),
        Schema(
            "evaluation",
            ("prompt_id",),
            {
                "prompt_id": _STR,
                "n": _I32,
                "c": _I32,
                "correct": pl.List(pl.Boolean()),
                "greedy_correct": _BOOL,
                "styles": pl.List(pl.String()),
                "distinct_styles": _I32,
                "distinct_styles_correct": _I32,
                "distinct_answers": _I32,
                "distinct_programs": _I32,
                **dict.fromkeys(_CLASSES, _TOKENS),
                **dict.fromkeys(("cluster", "level"), _STR),
            },
            nullable=frozenset({"greedy_correct", *_CLASSES, "cluster", "level"}),
            bounds={"n": (1, _INF), "c": (0, _INF), **dict.fromkeys(_CLASSES, (0, _INF))},
        ),
        Schema("passk", (*_POLICY, "k"), {**_POLICY, "k": _I32, **_INTERVAL}),
        Schema("headline", (*_POLICY, "metric"), {**_POLICY, "metric": _STR, **_INTERVAL}),
        Schema("headline_levels", ("level", *_POLICY, "metric"), {**_LEVEL, **_POLICY, "metric": _STR, **_INTERVAL}),
        Schema(
            "consistency",
            (*_POLICY, "metric", "k"),
            {**_POLICY, "metric": _STR, "k": _I32, **_INTERVAL},
            enums={"metric": ("pass^k", "maj@k")},
        ),
        Schema("diversity", (*_POLICY, "metric"), {**_POLICY, "metric": _STR, **_INTERVAL}),
        Schema(
            "styles",
            (*_POLICY, "style"),
            {
                **_POLICY,
                "style": _STR,
                **{name: _F64 for name in ("share", "low", "high", "distinct_styles")},
            },
        ),
        Schema(
            "keep_explore",
            tuple(_POLICY),
            {**_POLICY, **_RATES, "n_solved": _I32, "n_unsolved": _I32},
            nullable=frozenset(_RATES),
        ),
        Schema(
            "keep_explore_levels",
            ("level", *_POLICY),
            {**_LEVEL, **_POLICY, **_RATES, "n_solved": _I32, "n_unsolved": _I32},
            nullable=frozenset(_RATES),
        ),
        Schema(
            "forgetting",
            tuple(_POLICY),
            {**_POLICY, **dict.fromkeys(("kept", "forgotten", "gained", "unsolved"), _I32)},
        ),
        Schema(
            "comparisons",
            ("dataset", "metric", "method", "against", "kind"),
            {
                **dict.fromkeys(("dataset", "metric", "method", "against", "kind"), _STR),
                **dict.fromkeys(("difference", "low", "high", "p", "p_holm"), _F64),
                "seeds": _I32,
            },
            nullable=frozenset({"low", "high", "p", "p_holm"}),
            enums={"kind": ("prompts", "seeds")},
            bounds={"p": (0, 1), "p_holm": (0, 1), "seeds": (1, _INF)},
        ),
        Schema(
            "claims",
            ("claim", "dataset"),
            {
                **dict.fromkeys(
                    ("claim", "sentence", "source", "dataset", "metric", "method", "against", "kind"), _STR
                ),
                **dict.fromkeys(("difference", "low", "high"), _F64),
                "seeds": _I32,
                "verdict": _STR,
            },
            nullable=frozenset({"kind", "difference", "low", "high"}),
            enums={"kind": ("prompts", "seeds"), "verdict": ("supported", "not supported", "not enough data")},
        ),
        Schema(
            "training",
            ("method", "seed", "step", "metric"),
            {"method": _STR, "seed": _I32, "step": _I32, "metric": _STR, "value": _F64},
        ),
        Schema(
            "costs",
            ("file", "stage", "part"),
            {
                "file": _STR,
                "stage": _STR,
                "part": _STR,
                "seconds": _F64,
                "tokens": _I64,
                "tokens_per_s": _F64,
                "max_rss_mib": _F64,
            },
            nullable=frozenset({"tokens", "tokens_per_s"}),
        ),
        Schema(
            "audit",
            ("artifact",),
            {
                "artifact": _STR,
                "schema": _STR,
                "rows": _I64,
                "sha256": _STR,
                "digest": _STR,
                "passed": _I32,
                "failed": pl.List(pl.String()),
            },
            nullable=frozenset({"schema", "rows", "digest"}),
        ),
    )
}
