"""The declared schema of every table that passes between stages."""

from __future__ import annotations

import polars as pl

from dphrl.artifacts.schema import Schema
from dphrl.artifacts.verdicts import VERDICTS

GOLD_REASONS = ("unrunnable", "empty", "nondeterministic", "order-ambiguous", "conflicting")

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
                "level": _STR,
            },
            nullable=frozenset({"level"}),
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
            "style_counts",
            (*_POLICY, "styles"),
            {**_POLICY, "styles": _I32, **dict.fromkeys(("share", "low", "high"), _F64)},
            bounds={"styles": (1, _INF)},
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
            "paper",
            ("row", "column"),
            {
                **dict.fromkeys(("row", "column"), _I32),
                **dict.fromkeys(("source", "policy"), _STR),
                "seeds": _I32,
                **dict.fromkeys(("dataset", "metric"), _STR),
                **dict.fromkeys(("value", "sd"), _F64),
            },
            nullable=frozenset({"seeds", "value", "sd"}),
            bounds={"value": (0, 1)},
        ),
        Schema(
            "ablation",
            ("family", "eta", *_POLICY, "metric"),
            {"family": _STR, "eta": _F64, **_POLICY, "metric": _STR, **_INTERVAL},
            bounds={"eta": (0, _INF)},
        ),
        Schema(
            "training_cost",
            ("method", "part"),
            {
                **dict.fromkeys(("method", "part"), _STR),
                "trainings": _I32,
                **dict.fromkeys(("seconds", "tokens", "tokens_per_s"), _F64),
            },
            nullable=frozenset({"tokens", "tokens_per_s"}),
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
