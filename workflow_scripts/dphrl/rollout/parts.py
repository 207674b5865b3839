"""Samples in parts on disk: an interrupted job draws no more than the parts that it had not finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import polars as pl

from dphrl.artifacts.files import parts_folder
from dphrl.artifacts.footer import ADDED
from dphrl.artifacts.schema import SchemaError
from dphrl.artifacts.tables import read_footer, read_table, write_table
from dphrl.rollout.requests import Completion, Request, rollout_frame

# Some minutes of a GPU, since at the end of a part the engine waits for its longest response. Of 32 samples a prompt
# these are 512 prompts. Parts change the rounding of log-probs, so their size is code that reruns, and no setting.
REQUESTS: Final = 1 << 14


class Parts:
    """The samples of one job, in parts of whole prompts, in a hidden folder next to its output.

    Args:
        requests: in key order, those of a prompt one after the other.
        output: the table that the parts become.
        footer: of the job: digests of inputs and code, the slice of the configuration. Only parts with the same footer
            and the same requests are used.
        size: requests in a part, rounded up to whole prompts.

    Attributes:
        requests: those of each part.
    """

    def __init__(
        self, requests: Sequence[Request], output: Path, footer: Mapping[str, Any], size: int = REQUESTS
    ) -> None:
        self.requests: list[list[Request]] = []
        for _, of_prompt in groupby(requests, lambda request: request.prompt_id):
            if not self.requests or len(self.requests[-1]) >= size:
                self.requests.append([])
            self.requests[-1] += of_prompt
        self._folder, self._footer = parts_folder(output), json.loads(json.dumps(footer))

    def missing(self) -> list[int]:
        """The numbers of the parts that are still to be drawn."""
        return [number for number in range(len(self.requests)) if self._read(number) is None]

    def write(self, number: int, completions: Sequence[Completion]) -> None:
        """Keep a part that was drawn."""
        frame = rollout_frame(self.requests[number], completions)
        write_table(frame, "rollouts", self._file(number), self._footer_of(number))

    def read(self) -> pl.DataFrame:
        """All samples, once no part is missing.

        Raises:
            SchemaError: a part is missing, or is not the part that was written.
        """
        parts = [rollout_frame([], [])]
        for number in range(len(self.requests)):
            part = self._read(number)
            if part is None:
                raise SchemaError(f"{self._file(number)}: not the part that was drawn; run snakemake again")
            parts.append(part)
        return pl.concat(parts)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number}.parquet"

    def _footer_of(self, number: int) -> dict[str, Any]:
        # Prompts and plan are in the footer of the job; the rest of a request is which samples of which prompts it has.
        samples = [(one.prompt_id, one.sample_index, one.seed) for one in self.requests[number]]
        return {**self._footer, "requests": hashlib.sha256(json.dumps(samples).encode()).hexdigest()}

    def _read(self, number: int) -> pl.DataFrame | None:
        """A part; None if it is not there, is damaged, or was drawn with other inputs, settings or code."""
        file, footer = self._file(number), self._footer_of(number)
        try:
            found = read_footer(file) if file.is_file() else {}
            same = {name: found[name] for name in found if name not in ADDED} == footer
            return read_table(file, "rollouts") if same else None
        except SchemaError:
            return None
