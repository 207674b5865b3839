"""Rows of a dataset as prompts. Nothing is dropped silently: each row is a prompt or a rejection."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from dphrl.data.answer_text import answer_part
from dphrl.data.fields import Fields, MalformedError, Renames, Row, json_text, show
from dphrl.data.ground_truth import comparable, truth_of
from dphrl.data.prompts import ASSISTANT, Messages, check_rendered, messages_of, without_answer
from dphrl.data.records import SourceError
from dphrl.data.tokens import Rendered, TemplateError
from dphrl.machine.progress import counted
from dphrl.store.catalogue import SCHEMAS

_LONGEST_LEVEL = 40


@dataclass(frozen=True, slots=True)
class Prepared:
    """A dataset, ready to be sampled: tables of the schemas `prompts` and `rejected`.

    `source_index` counts the rows of the source from 0; each is in one of the tables. `level` is the difficulty in the
    source, `duplicate_of` the `source_index` of the first row with the same prompt. `answered` counts the rows whose
    last turn of the assistant is left out.
    """

    prompts: pl.DataFrame
    rejected: pl.DataFrame
    answered: int = 0

    def summary(self) -> str:
        """How many rows are prompts, and why others are not, with the first rejected row."""
        kept = counted(self.prompts.height, "prompt")
        if self.answered:
            kept += f" (a last turn of the assistant is left out of {counted(self.answered, 'row')})"
        if self.rejected.is_empty():
            return kept
        reasons = self.rejected.group_by("reason", maintain_order=True).agg(
            pl.len(), pl.first("source_index", "detail")
        )
        shown = "; ".join(
            f"{count} {reason}, row {row}: {detail}" for reason, count, row, detail in reasons.iter_rows()
        )
        return f"{kept}, {counted(self.rejected.height, 'row')} rejected ({shown})"


def prompt_id(task: str, messages: Sequence[dict[str, str]]) -> str:
    """Hex blake2b (16 bytes) of task and messages as canonical JSON."""
    text = json_text({"task": task, "messages": list(messages)})
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def prepare(
    rows: Sequence[dict[str, Any]],
    task: str,
    source: str,
    render: Callable[[Messages], Rendered] | None,
    max_tokens: int,
    *,
    fields: Renames = MappingProxyType({}),
    instruction: str | None = None,
    databases: Path | None = None,
    thoughts: Mapping[str, str] = MappingProxyType({}),
    prefill: bool = False,
) -> Prepared:
    """Split rows into prompts and rejections.

    A row is rejected as `malformed` (a field is missing or of the wrong kind, or its database is missing), `duplicate`
    (the prompt of an earlier row), `conflict` (with another ground truth than there) or `overlong` (more than
    `max_tokens` tokens). The fields are in docs/datasets.md.

    Args:
        rows: as `read_source` gives them; it is a SourceError if none is a prompt, or the chat template fails on one.
        source: name of the source, for the table and the error.
        render: messages to a prompt, with the prompt template; None where nothing is sampled: then
            `prompt_token_ids` are empty and no prompt is overlong.
        fields: our name of a field -> the dataset's, for names that are not in `NAMES`; see `Fields`.
        instruction: a system message before the messages of each row, instead of the task's.
        databases: folder of `<db_id>/<db_id>.sqlite`; a SQL row whose database is not in it is malformed, and without
            the folder a SQL row needs a complete prompt.
        thoughts: `scoring.thoughts`; a prompt that ends inside of one has `thought_open`.
        prefill: a last turn of the assistant begins the response; otherwise it is left out, as it may be the solution.
    """
    lookup = Fields(fields)
    first: dict[str, tuple[int, Any]] = {}
    prompts: list[tuple[str, str, str, list[int], bool, str, int, str | None]] = []
    rejected: list[tuple[int, str, str, int | None]] = []
    answered = 0
    for index, row in enumerate(rows):
        try:
            truth = truth_of(row, task, lookup)
            messages = messages_of(row, task, truth, lookup, instruction, databases)
            question = messages if prefill else without_answer(messages)
            answered += len(question) < len(messages)
            messages = question
            level = _level(row, lookup)
        except MalformedError as error:
            rejected.append((index, "malformed", str(error), None))
            continue
        key = prompt_id(task, messages)
        earlier, its_truth = first.setdefault(key, (index, truth))
        if earlier != index:
            problem = "duplicate", f"the prompt of row {earlier}"
            if comparable(truth, task) != comparable(its_truth, task):
                problem = "conflict", f"the prompt of row {earlier}, with {_differing(truth, its_truth)}"
            rejected.append((index, *problem, earlier))
            continue
        try:
            text, tokens = render(messages) if render else ("".join(turn["content"] for turn in messages), [])
            check_rendered(text, messages, row, lookup)
        except MalformedError as error:
            rejected.append((index, "malformed", str(error), None))
            continue
        except TemplateError as error:
            raise SourceError(f"{source}, row {index}: {error}") from error
        if len(tokens) > max_tokens:
            rejected.append((index, "overlong", f"{len(tokens)} tokens, limit {max_tokens}", None))
        elif render and not tokens:
            rejected.append((index, "malformed", "the prompt has no tokens", None))
        else:
            opened = text.rstrip().endswith(tuple(thoughts))
            if messages[-1]["role"] == ASSISTANT:
                opened = opened or answer_part(messages[-1]["content"], thoughts, False) is None
            prompts.append((key, task, json_text(messages), tokens, opened, source, index, level))
    if rejected and not prompts:
        counts = ", ".join(f"{count} {reason}" for reason, count in Counter(row[1] for row in rejected).items())
        raise SourceError(f"{source}: none of {len(rows)} rows is a prompt ({counts}); row 0: {rejected[0][2]}")
    return Prepared(
        prompts=SCHEMAS["prompts"].frame(prompts), rejected=SCHEMAS["rejected"].frame(rejected), answered=answered
    )


def _differing(truth: dict[str, Any], other: dict[str, Any]) -> str:
    """The first field in which two ground truths differ, with both values."""
    name = next(name for name in {**truth, **other} if truth.get(name) != other.get(name))
    return f"{name} {show(truth.get(name))} here and {show(other.get(name))} there"


def _level(row: Row, fields: Fields) -> str | None:
    """The level of a row on one short line; as nothing depends on it, a value of another type counts as absent."""
    _, value = fields.find(row, "level")
    if isinstance(value, float) and math.isfinite(value):
        value = f"{value:g}"
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    shown = value if isinstance(value, str) else show(value)
    printable = "".join(character if character.isprintable() else " " for character in shown)
    return " ".join(printable.split())[:_LONGEST_LEVEL].strip() or None
