"""The declared schema of every table that passes between stages."""

from __future__ import annotations

import polars as pl

from dphrl.store.schema import Schema
from dphrl.store.verdicts import VERDICTS

GOLD_REASONS = ("unrunnable", "empty", "order-ambiguous", "text-only", "conflicting")

_STR, _I32, _I64, _F32, _F64, _BOOL = pl.String(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64(), pl.Boolean()
_TOKENS, _LOGPROBS = pl.List(_I32), pl.List(_F32)
_INF = float("inf")
_FROM_0, _FROM_1 = (0, _INF), (1, _INF)


def _columns(dtype: pl.DataType, *names: str) -> dict[str, pl.DataType]:
    """Columns of one type."""
    return dict.fromkeys(names, dtype)


_SAMPLE = {"prompt_id": _STR, "sample_index": _I32}
_COUNTS = {"prompt_id": _STR, "n": _I32, "c": _I32}
_CLASSES = ("answers", "programs", "skeletons")
_STEP = {"step": _I32, "metric": _STR, "value": _F64}
_POLICY = {"method": _STR, "seed": _I32, "step": _I32, "dataset": _STR}
_INTERVAL = _columns(_F64, "value", "low", "high")
_METRIC = _POLICY | {"metric": _STR}
_COMPARED = ("level", "dataset", "metric", "method", "against")
_ERRORS = ("error_trainings", "freedom_trainings", "error_questions", "freedom_questions")
_RATES = _columns(_F64, *(f"{rate}{end}" for rate in ("keep", "explore", "ndr") for end in ("", "_low", "_high")))
_SOLVED = _columns(_F64, "kept", "lost", "gained", "neither")
_AT_K = _POLICY | {"k": _I32}

_DECLARED = (
    Schema(
        "databases",
        ("database",),
        {"database": _STR, "size": _I64, "sha256": _STR},
        bounds={"size": _FROM_0},
    ),
    Schema(
        "prompts",
        ("prompt_id",),
        _columns(_STR, "prompt_id", "task", "messages")
        | {"prompt_token_ids": _TOKENS, "thought_open": _BOOL, "source": _STR, "source_index": _I32, "level": _STR},
        nullable={"level"},
        bounds={"prompt_token_ids": _FROM_0, "source_index": _FROM_0},
    ),
    Schema(
        "rejected",
        ("source_index",),
        {"source_index": _I32, "reason": _STR, "detail": _STR, "duplicate_of": _I32},
        nullable={"duplicate_of"},
        enums={"reason": ("duplicate", "conflict", "overlong", "malformed")},
    ),
    Schema(
        "gold",
        ("prompt_id",),
        {"prompt_id": _STR, "ground_truth": _STR, "verdict": _STR, "kept": _BOOL, "reason": _STR},
        nullable={"reason"},
        enums={"verdict": VERDICTS, "reason": GOLD_REASONS},
    ),
    Schema(
        "overlap",
        ("prompt_id", "dataset"),
        _columns(_STR, "prompt_id", "dataset", "kind"),
        enums={"kind": ("exact", "normalised")},
    ),
    Schema(
        "datasets",
        ("dataset",),
        {"dataset": _STR}
        | _columns(_I64, "rows", "prompts", "duplicate", "conflict", "overlong", "malformed", "kept")
        | _columns(_I64, *(reason.replace("-", "_") for reason in GOLD_REASONS))
        | _columns(_I64, "overlap_exact", "overlap_normalised"),
    ),
    Schema(
        "rollouts",
        tuple(_SAMPLE),
        _SAMPLE
        | {"seed": _I64, "token_ids": _TOKENS, "sampler_logprobs": _LOGPROBS}
        | _columns(_STR, "text", "finish_reason"),
        enums={"finish_reason": ("stop", "length")},
        bounds={"sample_index": (-1, _INF), "token_ids": _FROM_0, "sampler_logprobs": (-_INF, 0.0)},
    ),
    Schema(
        "verdicts",
        tuple(_SAMPLE),
        _SAMPLE
        | {"verdict": _STR, "correct": _BOOL, "reward": _F64}
        | _columns(_STR, "extracted", "answer_class", "program_class", "detail")
        | {"reads_table": _BOOL},
        nullable={"extracted", "answer_class", "program_class", "detail", "reads_table"},
        enums={"verdict": VERDICTS[:-1]},
        bounds={"sample_index": (-1, _INF), "reward": (0.0, 1.0)},
    ),
    Schema(
        "partition",
        ("prompt_id",),
        _COUNTS | {"subset": _STR, "reason": _STR, "reference_sample": _I32},
        nullable={"reference_sample"},
        enums={"subset": ("pef", "exp", "dropped")},
        bounds={"n": _FROM_0, "c": _FROM_0},
    ),
    Schema(
        "reference_index",
        ("row",),
        {"row": _I32, **_SAMPLE, "start": _I64, "prompt_length": _I32, "response_length": _I32}
        | {"response_start": _I64, "max_sampler_gap": _F64},
        nullable={"max_sampler_gap"},
        bounds={"start": _FROM_0, "prompt_length": _FROM_1, "response_length": _FROM_1},
    ),
    Schema(
        "supervised",
        ("step",),
        {"step": _I32} | _columns(_F64, "lr", "loss", "gradient_norm") | {"tokens": _I64},
        bounds={"step": _FROM_1, "loss": _FROM_0, "gradient_norm": _FROM_0, "tokens": _FROM_1},
    ),
    Schema("metrics", ("step", "metric"), _STEP, bounds={"step": _FROM_1}),
    Schema(
        "probes",
        ("step", *_SAMPLE),
        {"step": _I32, **_SAMPLE}
        | _columns(_STR, "subset", "text", "extracted")
        | {"correct": _BOOL, "answer_class": _STR},
        nullable={"extracted", "answer_class"},
        enums={"subset": ("pef", "exp")},
        bounds={"step": _FROM_0, "sample_index": _FROM_0},
    ),
    Schema(
        "timings",
        ("stage", "part"),
        _columns(_STR, "stage", "part") | {"seconds": _F64, "tokens": _I64, "tokens_per_s": _F64, "max_rss_mib": _F64},
        nullable={"tokens", "tokens_per_s"},
    ),
    Schema(
        "evaluation",
        ("prompt_id",),
        _COUNTS
        | {"correct": pl.List(_BOOL), "greedy_correct": _BOOL, "styles": pl.List(_STR)}
        | _columns(_I32, "distinct_styles", "constants")
        | _columns(_TOKENS, *_CLASSES)
        | _columns(_STR, "cluster", "level"),
        nullable={"greedy_correct", "constants", *_CLASSES, "cluster", "level"},
        bounds={"n": _FROM_1, "c": _FROM_0, **dict.fromkeys(_CLASSES, _FROM_0)},
    ),
    Schema("passk", tuple(_AT_K), _AT_K | _INTERVAL),
    Schema(
        "collapse",
        ("dataset", "method"),
        _columns(_STR, "dataset", "method", "word")
        | {"k": _I32}
        | _columns(_F64, "difference", "low", "high")
        | {"text": _STR},
        enums={"word": ("COLLAPSED", "WORSE", "SHARPENED", "NARROWED", "NOT COLLAPSED", "CANNOT TELL")},
        bounds={"k": _FROM_1},
    ),
    Schema(
        "hotter",
        ("dataset", "method", "temperature"),
        _columns(_STR, "dataset", "method")
        | {"temperature": _F64, "k": _I32}
        | _columns(_F64, "value", "difference", "low", "high")
        | {"chosen": _BOOL, "recovers": _BOOL}
        | _columns(_F64, "judged", "judged_low", "judged_high"),
        bounds={"k": _FROM_1},
    ),
    Schema("headline", tuple(_METRIC), _METRIC | _INTERVAL),
    Schema(
        "rarefied",
        (*_POLICY, "classes", "m"),
        _POLICY | {"classes": _STR, "m": _I32, "prompts": _I32} | _INTERVAL,
        enums={"classes": ("styles", *_CLASSES)},
        bounds={"m": (2, _INF), "prompts": (30, _INF), "value": _FROM_1},
    ),
    Schema(
        "styles",
        (*_POLICY, "style"),
        {**_POLICY, "style": _STR, **_columns(_F64, "share", "low", "high", "distinct_styles")},
    ),
    Schema(
        "keep_explore",
        tuple(_AT_K),
        _AT_K | _RATES | _SOLVED,
        nullable={*_RATES},
        bounds=dict.fromkeys(_SOLVED, _FROM_0),
    ),
    Schema(
        "comparisons",
        _COMPARED,
        _columns(_STR, *_COMPARED)
        | _columns(_F64, "difference", "low", "high", "p", "p_permutation")
        | _columns(_I32, "seeds", "seeds_against", "questions", "clusters")
        | _columns(_F64, *_ERRORS)
        | {"trainings": pl.List(_F64)},
        nullable={"low", "high", "p", "p_permutation", "clusters", *_ERRORS},
        bounds=dict.fromkeys(("p", "p_permutation"), (0, 1))
        | {"seeds": _FROM_1, "seeds_against": _FROM_0, "questions": _FROM_1},
    ),
    Schema(
        "frontier",
        ("dataset", "level", "method", "seed", "metric"),
        _columns(_STR, "dataset", "level", "method") | {"seed": _I32, "metric": _STR, "value": _F64},
    ),
    Schema(
        "claims",
        ("claim", "dataset"),
        _columns(_STR, "claim", "sentence", "source")
        | {"primary": _BOOL}
        | _columns(_STR, "dataset", "level", "metric", "method", "against", "relation")
        | _columns(_F64, "difference", "low", "high", "p", "p_corrected", "p_permutation", "margin")
        | _columns(_F64, "of_trainings", "of_questions")
        | _columns(_I32, "seeds", "questions", "clusters")
        | {"verdict": _STR, "detectable": _F64}
        | _columns(_I32, "seeds_needed", "questions_needed")
        | {"trainings": pl.List(_F64)},
        nullable={
            "low",
            "high",
            "p",
            "p_corrected",
            "p_permutation",
            "of_trainings",
            "of_questions",
            "clusters",
            "detectable",
            "seeds_needed",
            "questions_needed",
        },
        enums={
            "relation": ("higher", "lower", "equal"),
            "verdict": ("supported", "contradicted", "equivalent", "undecided"),
        },
    ),
    Schema("training", ("method", "seed", "step", "metric"), {"method": _STR, "seed": _I32, **_STEP}),
)
SCHEMAS = {schema.name: schema for schema in _DECLARED}
