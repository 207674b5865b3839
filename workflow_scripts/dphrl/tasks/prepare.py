"""Rows of a dataset as prompts and gold. Nothing is dropped silently: each row is a prompt or a rejection."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

Task = Literal["sql", "math"]
Messages = list[dict[str, str]]

TASKS: Final = ("sql", "math")
_ROLES: Final = ("system", "user", "assistant")
_COMPARISONS: Final = ("spider", "bird", "strict")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A dataset, ready to be sampled.

    prompts: prompt_id str, task str, messages (JSON) str, prompt_token_ids list[i32], source str, source_index i32.
    rejected: source_index i32, reason str (duplicate, overlong, malformed), detail str.
    `source_index` counts the rows of the source from 0; each is in `prompts` or in `rejected`.
    """

    prompts: pl.DataFrame
    rejected: pl.DataFrame


class _MalformedError(ValueError):
    """A row is not what the task expects."""


def prompt_id(task: str, messages: Sequence[dict[str, str]]) -> str:
    """Hex blake2b (16 bytes) of task and messages as canonical JSON."""
    text = _canonical({"task": task, "messages": list(messages)})
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def prepare(
    rows: Sequence[dict[str, Any]],
    task: Task,
    source: str,
    tokenizer_encode: Callable[[Messages], list[int]],
    max_tokens: int,
) -> Prepared:
    """Split rows into prompts and rejections.

    A row is rejected as `malformed` (a field is missing or of the wrong kind), `duplicate` (the prompt of an earlier
    row) or `overlong` (more than `max_tokens` tokens).

    Args:
        rows: as `read_source` gives them.
        task: `sql` or `math`.
        source: name of the dataset's origin, for the table.
        tokenizer_encode: messages to token ids, with the prompt template.
        max_tokens: longest prompt.
    """
    if task not in TASKS:
        raise ValueError(f"task {task!r}: expected one of {', '.join(TASKS)}")
    seen: dict[str, int] = {}
    prompts: list[tuple[str, str, str, list[int], str, int]] = []
    rejected: list[tuple[int, str, str]] = []
    for index, row in enumerate(rows):
        try:
            messages, _ = _messages(row), _ground_truth(row, task)
        except _MalformedError as error:
            rejected.append((index, "malformed", str(error)))
            continue
        key = prompt_id(task, messages)
        if key in seen:
            rejected.append((index, "duplicate", f"the prompt of row {seen[key]}"))
            continue
        seen[key] = index
        tokens = [int(token) for token in tokenizer_encode(messages)]
        if len(tokens) > max_tokens:
            rejected.append((index, "overlong", f"{len(tokens)} tokens, limit {max_tokens}"))
        elif not tokens:
            rejected.append((index, "malformed", "the prompt has no tokens"))
        else:
            prompts.append((key, task, _canonical(messages), tokens, source, index))
    return Prepared(
        prompts=pl.DataFrame(
            prompts,
            schema={
                "prompt_id": pl.String(),
                "task": pl.String(),
                "messages": pl.String(),
                "prompt_token_ids": pl.List(pl.Int32()),
                "source": pl.String(),
                "source_index": pl.Int32(),
            },
            orient="row",
        ),
        rejected=pl.DataFrame(
            rejected, schema={"source_index": pl.Int32(), "reason": pl.String(), "detail": pl.String()}, orient="row"
        ),
    )


def gold_of(prompts: pl.DataFrame, rows: Sequence[dict[str, Any]], task: Task) -> pl.DataFrame:
    """The ground truths of a dataset's prompts; prompts and gold are apart, so a fix of scoring redraws no sample.

    Where rows with the same prompt have different ground truths, that of the first is set aside as `conflicting`.

    Args:
        prompts: as `prepare` gives them for these `rows` and `task`.

    Returns:
        prompt_id str, ground_truth (JSON) str, kept bool, reason str|null (conflicting), in the order of `prompts`.
    """
    truths: dict[str, list[str]] = {key: [] for key in prompts["prompt_id"]}
    for row in rows:
        try:
            key, truth = prompt_id(task, _messages(row)), _ground_truth(row, task)
        except _MalformedError:
            continue
        if key in truths:
            truths[key].append(truth)
    return pl.DataFrame(
        [(k, t[0], len(set(t)) == 1, None if len(set(t)) == 1 else "conflicting") for k, t in truths.items()],
        schema={"prompt_id": pl.String(), "ground_truth": pl.String(), "kept": pl.Boolean(), "reason": pl.String()},
        orient="row",
    )


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _messages(row: dict[str, Any]) -> Messages:
    """The prompt as messages; `prompt` may be text or itself a list of messages."""
    given = [name for name in ("prompt", "messages") if row.get(name) is not None]
    if len(given) != 1:
        raise _MalformedError(f"expected either prompt or messages, found {' and '.join(given) or 'neither'}")
    value = row[given[0]]
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise _MalformedError(f"{given[0]}: expected text or a list of messages, found {_show(value)}")
    for number, message in enumerate(value):
        if not isinstance(message, dict) or set(message) != {"role", "content"} or message["role"] not in _ROLES:
            raise _MalformedError(f"message {number}: expected role and content, found {_show(message)}")
        _text(f"message {number}", message["content"])
    return [{"role": message["role"], "content": message["content"]} for message in value]


def _ground_truth(row: dict[str, Any], task: Task) -> str:
    if task == "math":
        answer = row.get("answer")
        if isinstance(answer, str):
            _text("answer", answer)
        elif isinstance(answer, bool) or not isinstance(answer, int | float) or not math.isfinite(answer):
            raise _MalformedError(f"answer: expected text or a number, found {_show(answer)}")
        return _canonical({"answer": answer})
    truth = {name: _text(name, row.get(name)) for name in ("db_id", "gold_sql")}
    comparison = row.get("comparison")
    if comparison is not None:
        if comparison not in _COMPARISONS:
            raise _MalformedError(f"comparison: expected one of {', '.join(_COMPARISONS)}, found {_show(comparison)}")
        truth["comparison"] = comparison
    return _canonical(truth)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _MalformedError(f"{name}: expected text, found {_show(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _MalformedError(f"{name}: holds a lone surrogate, which is no text")
    return value


def _show(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
