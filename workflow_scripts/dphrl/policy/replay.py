"""Recorded responses (of an API, of another cluster) in place of an engine."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from dphrl.data.records import is_unicode, read_source
from dphrl.policy.requests import GREEDY, Completion, Request


class RecordedError(ValueError):
    """A file of recorded responses cannot be used; the text names the file and the row."""


class ReplayEngine:
    """Answers requests from a file of recorded responses.

    A row of the file has the question as `prompt_id` (as in the prompts table) or `source_index` (row of the dataset's
    file, from 0), and `response` (a text) or `responses` (a list). It may have `finish_reason` (stop, length) and
    `sample_index`: -1 is the greedy response. Without it the responses to a prompt are numbered in file order.

    Other fields are ignored. So are rows of questions that are no prompts, such as rejected or repeated questions.

    Args:
        file: JSONL, JSON or parquet.
        prompts: columns prompt_id and source_index, one row for each prompt of the dataset.
        tokenize: a text, and whether it is complete, to token ids; None (there is no model) leaves them empty.
        first: sample_index of the first recorded sample to use; earlier ones belong to another plan.

    Raises:
        RecordedError: a row is malformed, a sample is recorded twice, or no row belongs to the prompts.
        SourceError: the file cannot be parsed, or has no rows.
    """

    def __init__(
        self,
        file: Path,
        prompts: pl.DataFrame,
        tokenize: Callable[[str, bool], list[int]] | None = None,
        first: int = 0,
    ) -> None:
        self._file, self._tokenize, self._first = file, tokenize, first
        self._source = dict(prompts.select("prompt_id", "source_index").iter_rows())
        by_source = {index: key for key, index in self._source.items()}
        self._responses: dict[str, dict[int, Completion]] = {}
        # Keys of rows that belong to no prompt: rejected questions, or a wrong numbering.
        self._others: list[int | str] = []
        for number, row in enumerate(read_source(file)):
            key, responses = self._read(number, row)
            prompt = by_source.get(key) if isinstance(key, int) else key
            if isinstance(prompt, str) and prompt in self._source:
                self._record(number, prompt, row.get("sample_index"), responses)
            else:
                self._others.append(key)
        if not self._responses:
            raise RecordedError(f"{file}: no row belongs to a prompt of the dataset: is this the right file?")

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """The recorded responses, in order, without log-probs. Raises `RecordedError` where one was not recorded."""
        return [self._completion(request) for request in requests]

    def _read(self, number: int, row: dict[str, Any]) -> tuple[int | str, list[Completion]]:
        # A number under `prompt_id` is another tool's id, and no place in the file.
        named = [(row.get("prompt_id"), str), (row.get("source_index"), int)]
        keys = [key for key, _ in named if isinstance(key, str | int)]
        texts = row.get("responses") if row.get("response") is None else [row["response"]]
        finish = row.get("finish_reason") or "stop"
        if len(keys) != 1 or any(key is not None and type(key) is not kind for key, kind in named):
            raise self._error(number, "expected either prompt_id (text) or source_index (a whole number)")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            instead = f"found only {', '.join(map(str, row))}" if texts is None else "found something else"
            raise self._error(number, f"expected a text under response, or a list of texts under responses, {instead}")
        if not all(map(is_unicode, texts)):
            raise self._error(number, "a response holds a lone surrogate, half of a character: replace it by U+FFFD")
        if finish not in ("stop", "length"):
            raise self._error(number, f"finish_reason {finish!r}: expected stop or length")
        return keys[0], [Completion([], [], text, finish) for text in texts]

    def _record(self, number: int, prompt: str, index: int | None, responses: Sequence[Completion]) -> None:
        recorded = self._responses.setdefault(prompt, {})
        if index is None and recorded.keys() - {GREEDY} and len(responses) > 1:
            raise self._error(
                number, "this prompt has responses in an earlier row too: put them in one row, or give sample_index"
            )
        if index is None:
            index = max(recorded, default=GREEDY) + 1
        if not isinstance(index, int) or index < GREEDY or (index == GREEDY and len(responses) > 1):
            raise self._error(number, f"sample_index {index!r}: expected {GREEDY} (one greedy response), 0, 1, ...")
        for offset, response in enumerate(responses):
            if index + offset in recorded:
                raise self._error(number, f"sample {index + offset} of this prompt was recorded by an earlier row")
            recorded[index + offset] = response

    def _completion(self, request: Request) -> Completion:
        recorded = self._responses.get(request.prompt_id, {})
        index = GREEDY if request.sample_index == GREEDY else self._first + request.sample_index
        if index not in recorded:
            wanted = "a greedy response (sample_index -1)" if index == GREEDY else f"sample {index}"
            present = f"the samples {', '.join(map(str, sorted(recorded)))}" if recorded else "no sample"
            others = (
                f"; {len(self._others)} rows belong to no prompt, the first names {self._others[0]!r}: is "
                "source_index counted from 0?"
                if self._others
                else ""
            )
            raise RecordedError(
                f"{self._file}: row {self._source[request.prompt_id]} of the dataset (prompt {request.prompt_id}) has "
                f"{present}, but {wanted} is needed: record it, or lower n (or switch greedy off) of the "
                f"plan under sampling{others}"
            )
        response = recorded[index]
        if self._tokenize is None:
            return response
        return replace(response, token_ids=self._tokenize(response.text, response.finish_reason == "stop"))

    def _error(self, number: int, problem: str) -> RecordedError:
        return RecordedError(f"{self._file}, row {number}: {problem}")
