"""The files of a run, each compared with its seal, its manifest and SHA256SUMS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import sha256_file, visible_files
from dphrl.store.folder import other_version
from dphrl.store.kinds import Kind, kind_of, manifest_above
from dphrl.store.manifest import SUMS, folder_of, read_manifest, read_sums
from dphrl.store.parquet import read_footer
from dphrl.text import visible

PAGE: Final = "audit/index.html"
# Of people who follow a run.
_LEFT_OUT = ("logs", "tracking")
# People keep nothing in these folders.
_OURS = (
    *("policies", "states", "train", "draws", "rollouts", "verdicts"),
    *("gold", "prompts", "evaluation", "databases", "timings"),
)
_MAKE, _MOVE = "name it as a target of snakemake", "move it out of the folder of the run"
# The end of a reader's error.
_DELETE = "; delete it and run snakemake again"


class NoRunError(ValueError):
    """A folder is not the folder of a run."""


@dataclass
class Run:
    """A run and the faults that its audit has found.

    Attributes:
        root: the folder of the run.
        listed: the files that a finished run must have, by path; None: any that are there.
        sums: the sha256 of listed files, where it is known.
        footers: of each table and manifest that is as it was written, by path.
        faults: the texts of faults, by path.
        targets: artifacts that snakemake is to make again.
        hashes: the sha256 of each file that was read.
    """

    root: Path
    listed: frozenset[str] | None = None
    sums: Mapping[str, str] = field(default_factory=dict)
    footers: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=dict)
    targets: dict[str, None] = field(default_factory=dict)
    hashes: dict[Path, str] = field(default_factory=dict)

    @cached_property
    def present(self) -> frozenset[str]:
        """The files of the run, without hidden ones and those that jobs write for people."""
        paths = (file.relative_to(self.root) for file in visible_files(self.root))
        return frozenset(path.as_posix() for path in paths if path.parts[0] not in _LEFT_OUT)

    def fault(self, path: str, problem: str, remedy: str, *targets: str) -> None:
        """Record a fault. Names, footers and rows are texts of others: they reach a terminal as visible symbols."""
        self.faults.setdefault(path, []).append(visible(f"{path}: {problem}; {remedy}", keep=""))
        self.targets |= dict.fromkeys(targets)

    def damaged(self, path: str, problem: str) -> None:
        """Record a fault of a file that is to be made again, in a folder with the rest of the folder."""
        artifact = manifest_above(path) or path
        named = "it" if artifact == path else artifact
        self.fault(path, problem, f"delete {named} and run snakemake again", artifact)

    def is_about(self, path: str) -> bool:
        """Whether the audit is about a file: of a finished run, one that is listed."""
        return self.listed is None or path in self.listed

    def hash(self, path: str) -> str:
        """The sha256 of a file, which is read once."""
        file = self.root / path
        if file not in self.hashes:
            self.hashes[file] = sha256_file(file)
        return self.hashes[file]

    def footer(self, path: str) -> dict[str, Any] | None:
        """The footer of a table or manifest that is as it was written; None for another file or a damaged one."""
        kind = kind_of(path)
        if path not in self.footers and path not in self.faults and path in self.present and kind is not None:
            footer = self._sealed(path, kind)
            if footer:
                self.footers[path] = footer
        return self.footers.get(path)

    def _sealed(self, path: str, kind: Kind) -> dict[str, Any] | None:
        file, schema = self.root / path, SCHEMAS.get(kind.schema)
        if schema is None and kind.schema != "manifest":
            return None
        try:
            footer = read_footer(file, verify=self.is_about(path)) if schema else read_manifest(file)
        except (OSError, ValueError, RecursionError) as error:
            self.damaged(path, str(error).removeprefix(f"{file}: ").removesuffix(_DELETE))
            return None
        if footer.get("path") != path:
            self.damaged(path, f"was written as {footer.get('path')}")
        elif schema and (footer["schema"], footer["version"]) != (schema.name, schema.version):
            held = f"{footer['schema']} version {footer['version']}"
            self.damaged(path, f"holds {held}, expected {schema.name} version {schema.version}")
        else:
            return footer
        return None


def open_run(root: Path, files: Iterable[Path] | None = None) -> Run:
    """The run in a folder.

    Args:
        files: the files that it must have; None: those of SHA256SUMS, or without it any.

    Raises:
        NoRunError: there is no run, or one of another version of this project.
    """
    if not root.is_dir():
        raise NoRunError(f"{root}: no such folder; name the folder of a run, e.g. results/demo")
    if version := other_version(root):
        raise NoRunError(f"{root}: a run of version {version}, which only that version reads: git checkout v{version}")
    run = Run(root)
    if not any(map(kind_of, run.present)):
        raise NoRunError(f"{root}: no artifact of this workflow in it; name the folder of a run, e.g. results/demo")
    if files is not None:
        run.listed = frozenset(file.relative_to(root).as_posix() for file in files)
    elif SUMS in run.present:
        try:
            run.sums = read_sums(root)
            run.listed = frozenset(run.sums)
        except ValueError as error:
            run.fault(SUMS, str(error), "delete it and run snakemake again", SUMS)
    elif PAGE in run.present:
        run.fault(SUMS, "missing, but the audit of this run wrote it", _MAKE, SUMS)
    return run


def check_files(run: Run) -> None:
    """Name each damaged, missing and foreign file; keep the footers of the others."""
    for path in sorted(run.present | (run.listed or frozenset())):
        manifest = manifest_above(path)
        if path in run.faults:
            continue
        if path not in run.present:
            run.fault(path, f"missing, but {SUMS} lists it", _MAKE, manifest or path)
        elif manifest is not None:
            _check_listed(run, path, manifest)
        elif kind_of(path) is not None:
            footer = run.footer(path)
            for name, entry in footer.get("files", {}).items() if footer and run.is_about(path) else ():
                _check_written(run, path, name, entry["sha256"])
        elif path not in run.sums and (path.split("/")[0] in _OURS or path.endswith(".parquet")):
            run.fault(path, "no rule of this workflow writes it", _MOVE)
    for path, sha256 in run.sums.items():
        if path in run.present and path not in run.faults and run.hash(path) != sha256:
            run.damaged(path, f"not the file that {SUMS} lists ({sha256[:12]} then, {run.hash(path)[:12]} now)")
            run.footers.pop(path, None)


def _check_listed(run: Run, path: str, manifest: str) -> None:
    """A file in the folder of a manifest is listed there: a loader takes every *.safetensors of a folder."""
    if manifest not in run.present and manifest not in run.faults and run.is_about(manifest):
        run.fault(manifest, "missing, only its folder is left", _MAKE, manifest)
    footer = run.footer(manifest)
    if footer and Path(path).relative_to(folder_of(Path(manifest))).as_posix() not in footer["files"]:
        run.fault(path, f"not listed in {manifest}", _MOVE)


def _check_written(run: Run, artifact: str, name: str, sha256: str) -> None:
    """A file that a footer lists is there and as it was written: below a manifest's folder, or next to a table."""
    place = folder_of(Path(artifact)) if artifact.endswith(".json") else Path(artifact).parent
    path = (place / name).as_posix()
    if path not in run.present:
        run.damaged(path, f"missing, but {artifact} lists it")
    elif run.hash(path) != sha256:
        run.damaged(path, f"not the file that {artifact} lists")
